"""``kopf run -m``: the handlers are in a module of the path, by its name."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(**kwargs):
    record('create_fn', kwargs, module=__name__)


def story(world):
    world.start('-m', 'tests.parity.scenarios.process.cli_module')
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()

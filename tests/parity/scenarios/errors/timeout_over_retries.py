"""The time limit of a handler is over all of its retries."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', timeout=0.5)
def create_fn(**kwargs):
    record('create_fn', kwargs)
    raise kopf.TemporaryError('never', delay=2)


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()

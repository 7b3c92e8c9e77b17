"""A startup handler that fails for good ends the operator before it does anything."""

import kopf
from tests.parity.recorder import record


@kopf.on.startup()
def start_fn(**kwargs):
    record('start_fn', {'retry': kwargs['retry']})
    raise kopf.PermanentError('Not today.')


@kopf.on.cleanup()
def cleanup_fn(**kwargs):
    record('cleanup_fn', {'retry': kwargs['retry']})


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs)


def story(world):
    world.create('obj')
    world.start()
    world.note('exit code', world.operator.wait())
    world.operator = None

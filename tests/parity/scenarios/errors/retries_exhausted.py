"""The limit of retries counts for temporary errors, too."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', retries=2)
def create_fn(**kwargs):
    record('create_fn', kwargs)
    raise kopf.TemporaryError('never', delay=0.1)


@kopf.on.update('kopfexamples', retries=1)
def update_fn(**kwargs):
    record('update_fn', kwargs)
    raise kopf.TemporaryError('never', delay=0.1)


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.patch('obj', spec={'field': 'changed'})
    world.wait_log('Updating is processed')
    world.wait_handled('obj')
    world.sentinel()

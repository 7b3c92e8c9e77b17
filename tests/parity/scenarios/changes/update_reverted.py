"""A change that is reverted while its update is retried leaves nothing to handle."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    pass


@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record('update_fn', kwargs)
    raise kopf.TemporaryError('never', delay=60)


def story(world):
    world.start()
    world.create('obj', spec={'field': 'first'})
    world.wait_handled('obj')
    world.patch('obj', spec={'field': 'second'})
    world.wait(
        'obj',
        lambda body: 'delayed' in body['metadata']['annotations']['kopf.zalando.org/update_fn'],
    )
    world.patch('obj', spec={'field': 'first'})
    world.sentinel()
    world.sentinel()

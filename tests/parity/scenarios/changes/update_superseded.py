"""A change while an update is retried: the update goes on with the newer diff."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    pass


@kopf.on.update('kopfexamples')
def update_fn(new, retry, **kwargs):
    record('update_fn', dict(kwargs, new=new, retry=retry))
    if new['spec']['field'] != 'third':
        raise kopf.TemporaryError('wait for the third', delay=2)


def story(world):
    world.start()
    world.create('obj', spec={'field': 'first'})
    world.wait_handled('obj')
    world.patch('obj', spec={'field': 'second'})
    world.wait(
        'obj',
        lambda body: 'delayed' in body['metadata']['annotations']['kopf.zalando.org/update_fn'],
    )
    world.patch('obj', spec={'field': 'third', 'more': 1})
    world.wait_log('Updating is processed')
    world.wait_handled('obj')
    world.sentinel()

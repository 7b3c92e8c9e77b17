"""A change while a creation is retried: the creation goes on with the new spec, and is not repeated
as an update.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
def create_fn(spec, **kwargs):
    record('create_fn', kwargs, spec=spec)
    if spec.get('field') == 'value':
        raise kopf.TemporaryError('not this value', delay=2)


@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record('update_fn', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.wait(
        'obj',
        lambda body: 'delayed' in body['metadata']['annotations']['kopf.zalando.org/create_fn'],
    )
    world.patch('obj', spec={'field': 'good'})
    world.wait_handled('obj')
    world.create('sentinel-like', spec={'field': 'good'})
    world.wait_handled('sentinel-like')

"""Everything that a handler puts into the patch is applied: the spec, the status, labels,
annotations.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
def create_fn(patch, **kwargs):
    record('create_fn', kwargs)
    patch.spec['added'] = {'by': 'handler'}
    patch.spec['field'] = None
    patch.status['phase'] = 'Created'
    patch.status.setdefault('nested', {})['deep'] = [1, 2]
    patch.meta.labels['label'] = 'yes'
    patch.metadata.annotations['example.com/note'] = 'noted'
    patch.setdefault('spec', {})['raw'] = True
    return {'result': 1}


@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record('update_fn', kwargs)


def story(world):
    world.start()
    world.create('obj', spec={'field': 'value', 'kept': 1}, labels={'old': 'label'})
    world.wait('obj', lambda body: body['status']['create_fn'])
    world.wait_record('update_fn')
    world.wait_handled('obj')
    world.sentinel()

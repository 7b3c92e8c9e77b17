"""A daemon that returns is not called again; its result is stored, the object is free of it."""

import kopf
from tests.parity.recorder import record


@kopf.daemon('kopfexamples')
async def async_fn(patch, **kwargs):
    record('async_fn', kwargs)
    patch.status['patched'] = 'yes'
    return {'result': 1}


@kopf.daemon('kopfexamples', initial_delay=0.3)
def sync_fn(**kwargs):
    record('sync_fn', kwargs)
    return 'done'


UNORDERED = True


def story(world):
    world.start()
    world.create('obj')
    world.wait('obj', lambda body: 'async_fn' in body['status'] and 'sync_fn' in body['status'])
    world.patch('obj', spec={'field': 'changed'})
    world.wait('obj', lambda body: not body['metadata'].get('finalizers'))

"""With the status as a subresource: results, progress, and patches go where they belong."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfstatuses')
def create_fn(retry, patch, **kwargs):
    record('create_fn', dict(kwargs, retry=retry), 'status')
    patch.status['tried'] = retry
    patch.metadata.labels['tried'] = f'r{retry}'
    if not retry:
        raise kopf.TemporaryError('once more', delay=0.2)
    return {'done': True}


@kopf.on.update('kopfstatuses')
def update_fn(**kwargs):
    record('update_fn', kwargs, 'status')
    return 'updated'


@kopf.on.delete('kopfstatuses')
def delete_fn(**kwargs):
    record('delete_fn', kwargs, 'status')


def story(world):
    world.start()
    for name in 'obj', 'other':
        world.create(name, plural='kopfstatuses')
        world.wait(name, lambda body: body['status']['update_fn'], plural='kopfstatuses')
        world.wait_handled(name, plural='kopfstatuses')
    world.patch('obj', {'status': {'foreign': 1}}, plural='kopfstatuses', subresource='status')
    world.sentinel()
    world.delete('other', plural='kopfstatuses')
    world.wait_gone('other', plural='kopfstatuses')
    world.sentinel()

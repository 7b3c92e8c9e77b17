"""Annotations under a prefix of one's own, which marks itself as managed by kopf."""

import kopf
from tests.parity.recorder import record


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(
        prefix='my-op.example.com'
    )
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(
        prefix='my-op.example.com', key='last-seen'
    )
    settings.persistence.finalizer = 'my-op.example.com/finalizer'


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs, 'meta.finalizers')
    return 1


@kopf.on.create('kopfexamples')
def waiting_fn(**kwargs):
    record('waiting_fn', kwargs)
    if kwargs['spec'].get('wait'):
        raise kopf.TemporaryError('later', delay=60)


@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record('update_fn', kwargs)


@kopf.on.delete('kopfexamples')
def delete_fn(**kwargs):
    record('delete_fn', kwargs)


def story(world):
    world.start()
    world.create('obj', annotations={'kopf.zalando.org/last-handled-configuration': '{}'})
    world.wait('obj', lambda body: body['metadata']['annotations']['my-op.example.com/last-seen'])
    world.patch('obj', spec={'field': 'changed'})
    world.wait_record('update_fn')
    world.wait(
        'obj',
        lambda body: 'changed' in body['metadata']['annotations']['my-op.example.com/last-seen'],
    )
    world.create('waiting', spec={'wait': True})
    world.wait(
        'waiting',
        lambda body: 'delayed' in body['metadata']['annotations']['my-op.example.com/waiting_fn'],
    )

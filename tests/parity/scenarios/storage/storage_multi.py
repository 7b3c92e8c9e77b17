"""Several storages at once: written to all, read from the first that has it."""

import kopf
from tests.parity.recorder import record


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.progress_storage = kopf.MultiProgressStorage(
        [
            kopf.AnnotationsProgressStorage(prefix='my-op.example.com'),
            kopf.StatusProgressStorage(name='multi'),
        ]
    )
    settings.persistence.diffbase_storage = kopf.MultiDiffBaseStorage(
        [
            kopf.AnnotationsDiffBaseStorage(prefix='my-op.example.com'),
            kopf.StatusDiffBaseStorage(name='multi'),
        ]
    )


@kopf.on.create('kopfexamples')
def create_fn(retry, **kwargs):
    record('create_fn', dict(kwargs, retry=retry))
    if kwargs['spec'].get('wait'):
        raise kopf.TemporaryError('later', delay=60)


@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record('update_fn', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.wait('obj', lambda body: body['status']['multi']['last-handled-configuration'])
    world.patch('obj', spec={'field': 'changed'})
    world.wait_record('update_fn')
    world.wait('obj', lambda body: 'changed' in str(body['status']['multi']))
    world.create('waiting', spec={'wait': True})
    world.wait('waiting', lambda body: body['status']['multi']['progress']['create_fn']['delayed'])

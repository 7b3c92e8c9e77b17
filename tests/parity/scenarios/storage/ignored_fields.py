"""Fields that the storage ignores are not changes."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(
        ignored_fields=['spec.noise', 'metadata.labels.noise']
    )


@kopf.on.create('kopfexamples')
@kopf.on.update('kopfexamples')
def fn(**kwargs):
    record('fn', kwargs)


def story(world):
    world.start()
    world.create('obj', spec={'field': 'value', 'noise': 1}, labels={'noise': 'x', 'other': 'y'})
    world.wait('obj', lambda body: world.last_handled in body['metadata']['annotations'])
    world.patch('obj', spec={'noise': 2}, metadata={'labels': {'noise': 'z'}})
    world.sentinel()
    world.patch('obj', spec={'field': 'changed', 'noise': 3})
    world.wait_record('fn', reason='update')
    world.wait('obj', lambda body: 'changed' in body['metadata']['annotations'][world.last_handled])
    world.sentinel()

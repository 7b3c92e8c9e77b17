"""The verbose progress has all the fields, also the empty ones."""

import kopf
from tests.parity.recorder import record


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(verbose=True, v1=False)


@kopf.on.create('kopfexamples')
def done_fn(**kwargs):
    record('done_fn', kwargs)


@kopf.on.create('kopfexamples', id='long' * 30)
def waiting_fn(**kwargs):
    record('waiting_fn', kwargs)
    raise kopf.TemporaryError('later', delay=60)


def story(world):
    world.start()
    world.create('obj')
    world.wait(
        'obj',
        lambda body: any('later' in text for text in body['metadata']['annotations'].values()),
    )

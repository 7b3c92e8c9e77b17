"""State in the status, and under prefixes of one's own, is understood by the other
implementation.
"""

import os

import kopf
from tests.parity.recorder import record, sentinel

SWITCH = True
sentinel()


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.progress_storage = kopf.MultiProgressStorage(
        [
            kopf.StatusProgressStorage(field='status.op.progress'),
            kopf.AnnotationsProgressStorage(prefix='op.example.com'),
        ]
    )
    settings.persistence.diffbase_storage = kopf.MultiDiffBaseStorage(
        [
            kopf.StatusDiffBaseStorage(field='status.op.seen'),
            kopf.AnnotationsDiffBaseStorage(prefix='op.example.com'),
        ]
    )


@kopf.on.create('kopfexamples')
def done_fn(**kwargs):
    record('done_fn', kwargs)


@kopf.on.create('kopfexamples', labels={'retried': 'yes'})
def retried_fn(retry, **kwargs):
    record('retried_fn', dict(kwargs, retry=retry))
    if not os.environ.get('WORKS'):
        raise kopf.TemporaryError('not here', delay=2)


def story(world):
    world.start(implementation=0)
    world.create('done')
    world.create('retried', labels={'retried': 'yes'})
    world.wait('done', lambda body: body['status']['op']['seen'])
    world.wait(
        'retried', lambda body: body['status']['op']['progress']['retried_fn']['retries'] == 1
    )
    world.kill()
    world.start(implementation=1, env={'WORKS': '1'})
    world.wait('retried', lambda body: body['status']['op']['seen'])
    world.sentinel()

"""The smart storage reads the progress from the status, too, but writes annotations only."""

import kopf
from tests.parity.recorder import record


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.progress_storage = kopf.SmartProgressStorage(
        prefix='my-op.example.com', name='old', verbose=True
    )


@kopf.on.create('kopfexamples')
def done_fn(**kwargs):
    record('done_fn', kwargs)


@kopf.on.create('kopfexamples')
def create_fn(retry, **kwargs):
    record('create_fn', dict(kwargs, retry=retry))
    raise kopf.TemporaryError('later', delay=60)


def story(world):
    world.create(
        'obj',
        status={
            'old': {
                'progress': {
                    'done_fn': {
                        'started': '2020-01-01T00:00:00+00:00',
                        'stopped': '2020-01-01T00:00:01+00:00',
                        'retries': 1,
                        'success': True,
                        'failure': False,
                        'purpose': 'create',
                    },
                    'create_fn': {
                        'started': '2020-01-01T00:00:00+00:00',
                        'retries': 3,
                        'success': False,
                        'failure': False,
                        'purpose': 'create',
                    },
                }
            }
        },
    )
    world.start()
    world.wait(
        'obj',
        lambda body: 'delayed' in body['metadata']['annotations']['my-op.example.com/create_fn'],
    )

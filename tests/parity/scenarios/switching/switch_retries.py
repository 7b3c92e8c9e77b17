"""Half-finished retries are taken over by the other implementation, with their counters."""

import os

import kopf
from tests.parity.recorder import record

SWITCH = True


@kopf.on.create('kopfexamples')
def done_fn(**kwargs):
    record('done_fn', kwargs)
    return 'done'


@kopf.on.create('kopfexamples')
def retried_fn(retry, runtime, **kwargs):
    record('retried_fn', dict(kwargs, retry=retry))
    if not os.environ.get('WORKS'):
        raise kopf.TemporaryError('not here', delay=2 if retry else 0.1)
    return {'retry': retry, 'long enough': runtime.total_seconds() > 1}


def story(world):
    world.start(implementation=0)
    world.create('obj')
    world.wait(
        'obj',
        lambda body: (
            '"retries":2' in body['metadata']['annotations']['kopf.zalando.org/retried_fn']
        ),
    )
    world.kill()
    world.start(implementation=1, env={'WORKS': '1'})
    world.wait_handled('obj')

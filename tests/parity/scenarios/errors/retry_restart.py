"""The counters of retries and the time of the start survive a kill of the operator."""

import kopf
from tests.parity.recorder import record


@kopf.on.create('kopfexamples')
def create_fn(retry, started, runtime, **kwargs):
    record('create_fn', dict(kwargs, retry=retry))
    if retry < 4:
        raise kopf.TemporaryError('not yet', delay=2 if retry == 1 else 0.1)
    return {'retry': retry, 'old enough': runtime.total_seconds() > 1}


def story(world):
    world.start()
    world.create('obj')
    world.wait(
        'obj',
        lambda body: '"retries":2' in body['metadata']['annotations']['kopf.zalando.org/create_fn'],
    )
    world.kill()
    world.start()
    world.wait_handled('obj')

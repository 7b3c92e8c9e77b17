"""TemporaryError with a short delay: the retry number grows, the start does not change."""

import kopf
from tests.parity.recorder import record

starts = set()


@kopf.on.create('kopfexamples')
def create_fn(retry, started, **kwargs):
    starts.add(started)
    record(
        'create_fn',
        dict(kwargs, retry=retry, started=started),
        'started',
        'runtime',
        same_start=len(starts) == 1,
    )
    if retry < 2:
        raise kopf.TemporaryError(f'Not yet: {retry}', delay=0.2)
    return retry


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')

"""delay=None and delay=0 mean a retry at once."""

import kopf
from tests.parity.recorder import record


@kopf.on.create('kopfexamples')
async def none_fn(retry, **kwargs):
    record('none_fn', dict(kwargs, retry=retry))
    if retry < 2:
        raise kopf.TemporaryError('again', delay=None)


@kopf.on.create('kopfexamples')
async def zero_fn(retry, **kwargs):
    record('zero_fn', dict(kwargs, retry=retry))
    if retry < 2:
        raise kopf.TemporaryError('again', delay=0)


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')

"""Errors of timers: retries within a tick, and the next tick after the last of them."""

import kopf
from tests.parity.recorder import record


@kopf.timer('kopfexamples', interval=0.3, retries=3, backoff=0.1)
async def timer_fn(retry, memo, **kwargs):
    memo.calls = memo.get('calls', 0) + 1
    if memo.calls > 6:
        return
    record('timer_fn', dict(kwargs, retry=retry), calls=memo.calls)
    if memo.calls == 1:
        raise kopf.TemporaryError('temporary', delay=0.1)
    if memo.calls in (2, 3):
        raise ValueError('arbitrary')
    if memo.calls == 4:
        raise kopf.PermanentError('permanent')


def story(world):
    world.start()
    world.create('obj')
    world.wait_record('timer_fn', calls=6)
    world.wait_log('succeeded', count=2)
    world.kill()

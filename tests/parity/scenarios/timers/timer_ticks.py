"""Timers: the kwargs, the results and patches of each tick.

Not the end with the object, which ``timer_ends`` shows: when the patch of a tick comes in between,
upstream lets go of the object only a minute later, or not at all.
"""

import kopf
from tests.parity.recorder import record


@kopf.timer('kopfexamples', interval=0.2, param='p')
async def async_fn(memo, patch, stopped, **kwargs):
    memo.ticks = memo.get('ticks', 0) + 1
    if memo.ticks == 1:
        names = sorted([*kwargs, 'memo', 'patch', 'stopped'])
        record(
            'async_fn',
            kwargs,
            'param',
            'retry',
            'started',
            'runtime',
            names=names,
            stopped=[bool(stopped), stopped.reason is None],
        )
    if memo.ticks < 3:
        return None
    patch.status['enough'] = True
    return 'ticked'


@kopf.timer('kopfexamples')
def once_fn(**kwargs):
    record('once_fn', kwargs)
    return 'once'


UNORDERED = True


def story(world):
    world.start()
    world.create('obj')
    world.wait('obj', lambda body: body['status']['enough'] and body['status']['once_fn'])
    world.wait('obj', lambda body: body['status']['async_fn'])
    world.note('finalizers', world.get('obj')['metadata']['finalizers'])

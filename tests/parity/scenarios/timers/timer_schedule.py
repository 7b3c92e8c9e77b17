"""When timers tick: after the initial delay; by ``sharp``, from start to start, and otherwise from
end to start.
"""

import asyncio
import itertools
import time

import kopf
from tests.parity.recorder import record

starts = {}


async def tick(id, kwargs):
    starts.setdefault(id, []).append(time.monotonic())
    if len(starts[id]) == 3:
        # The function takes 1 of the 2 seconds: it is 2 from start to start, or 3.
        gaps = [after - before for before, after in itertools.pairwise(starts[id])]
        record(id, kwargs, sharp=[gap < 2.5 for gap in gaps], early=[gap < 1.9 for gap in gaps])
    await asyncio.sleep(1)


@kopf.timer('kopfexamples', interval=2, sharp=True)
async def sharp_fn(**kwargs):
    await tick('sharp_fn', kwargs)


@kopf.timer('kopfexamples', interval=2)
async def blunt_fn(**kwargs):
    await tick('blunt_fn', kwargs)


@kopf.timer('kopfexamples', interval=60, initial_delay=3)
def delayed_fn(memo, **kwargs):
    record('delayed_fn', kwargs, late=time.monotonic() - memo.created > 2.5)


@kopf.on.event('kopfexamples')
def event_fn(memo, **_):
    memo.setdefault('created', time.monotonic())


UNORDERED = True


def story(world):
    world.start()
    world.create('obj')
    world.wait_record('delayed_fn')
    world.wait_record('sharp_fn')
    world.wait_record('blunt_fn')
    world.kill()

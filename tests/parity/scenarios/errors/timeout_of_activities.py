"""An async startup handler is still running when its timeout is over. Upstream lets it run as long
as it takes; ours cancels it, so that the operator does not start.
"""

import asyncio

import kopf
from tests.parity.recorder import record


@kopf.on.startup(timeout=1)
async def startup_fn(**kwargs):
    try:
        await asyncio.sleep(4)
    except asyncio.CancelledError:
        record('startup_fn', kwargs, end='cancelled')
        raise
    record('startup_fn', kwargs, end='returned')


def story(world):
    world.start()
    world.wait_until('the end of the handler', lambda: world.records('startup_fn'))
    ended = world.happens(lambda: not world.operator.is_running(), within_seconds=5)
    world.note('the operator has ended', ended)
    world.kill()

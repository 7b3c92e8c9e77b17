"""An async handler is still running when its timeout is over. Upstream lets it run as long as it
takes; ours cancels it.
"""

import asyncio

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', timeout=1, labels={'sentinel': kopf.ABSENT})
async def create_fn(**kwargs):
    try:
        await asyncio.sleep(4)
    except asyncio.CancelledError:
        record('create_fn', kwargs, end='cancelled')
        raise
    record('create_fn', kwargs, end='returned')


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()

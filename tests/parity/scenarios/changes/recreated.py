"""An object is deleted and created again under its name while a handler of the former one runs.
Upstream patches the new one with the results of the former; ours patches only what was handled.
"""

import asyncio
import os

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'life': 'former'})
async def former_fn(**kwargs):
    record('former_fn', kwargs)
    while not os.path.exists('go'):
        await asyncio.sleep(0.05)
    return 'of the former life'


@kopf.on.create('kopfexamples', labels={'life': 'next'})
async def next_fn(**kwargs):
    record('next_fn', kwargs)


def story(world):
    world.start()
    world.create('obj', labels={'life': 'former'})
    world.wait_record('former_fn')
    world.delete('obj')
    world.wait_gone('obj')
    world.create('obj', labels={'life': 'next'})
    world.wait_handled('obj')
    (world.folder / 'go').touch()
    world.wait_log("Handler 'former_fn' succeeded.")
    former = world.happens(lambda: world.get('obj').get('status'), within_seconds=3)
    world.note('the next one has the result of the former', former)
    world.sentinel()

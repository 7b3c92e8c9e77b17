"""The operator is killed between two handlers of a deletion: those that have succeeded are not
called again, the others are; a deletion that comes while it is down is handled.
"""

import asyncio
import os

import kopf
from tests.parity.recorder import record


@kopf.on.delete('kopfexamples')
async def first_fn(**kwargs):
    record('first_fn', kwargs)


@kopf.on.delete('kopfexamples')
async def second_fn(**kwargs):
    record('second_fn', kwargs)
    while not os.environ.get('WORKS'):
        await asyncio.sleep(1)


def story(world):
    world.start()
    for name in 'begun', 'later':
        world.create(name)
        world.wait(name, lambda body: body['metadata'].get('finalizers'))
    world.delete('begun')
    world.wait_record('second_fn', name='begun')
    world.kill()
    world.delete('later')
    world.start(env={'WORKS': 'yes'})
    world.wait_gone('begun')
    world.wait_gone('later')

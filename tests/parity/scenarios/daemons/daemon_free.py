"""A daemon returns when nothing else happens to its object. Upstream lets go of the object at its
next event; ours does at once.
"""

import asyncio
import os

import kopf
from tests.parity.recorder import record


@kopf.daemon('kopfexamples')
async def daemon_fn(**kwargs):
    record('daemon_fn', kwargs)
    while not os.path.exists('go'):
        await asyncio.sleep(0.05)


def story(world):
    world.start()
    world.create('obj')
    world.wait_record('daemon_fn')
    world.wait('obj', lambda body: body['metadata'].get('finalizers'))
    (world.folder / 'go').touch()
    world.wait_log("Daemon 'daemon_fn' succeeded.")
    free = world.happens(
        lambda: not world.get('obj')['metadata'].get('finalizers'), within_seconds=5
    )
    world.note('free without another change', free)
    world.patch('obj', spec={'field': 'changed'})
    world.wait('obj', lambda body: not body['metadata'].get('finalizers'))

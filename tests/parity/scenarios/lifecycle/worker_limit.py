"""``settings.queueing.worker_limit`` limits how many objects are handled at a time."""

import asyncio

import kopf
from tests.parity.recorder import record

NAMES = ['obj-0', 'obj-1', 'obj-2', 'obj-3', 'obj-4', 'obj-5', 'obj-6', 'obj-7']
active = set()


@kopf.on.startup()
def configure(settings, **_):
    settings.queueing.worker_limit = 2


@kopf.on.create('kopfexamples')
async def create_fn(name, **kwargs):
    active.add(name)
    for _ in range(10):
        assert len(active) <= 2
        await asyncio.sleep(0.05)
    active.discard(name)
    record('create_fn', dict(kwargs, name=name))


def story(world):
    for name in NAMES:
        world.create(name)
    world.start()
    for name in NAMES:
        world.wait_handled(name)

"""Async handlers of 100 objects wait for each other: all are called, though none has ended."""

import asyncio

import kopf
from tests.parity.recorder import record, sentinel

COUNT = 100
sentinel()
started = set()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def create_fn(name, **kwargs):
    started.add(name)
    while len(started) < COUNT:
        await asyncio.sleep(0.05)
    record('create_fn', dict(kwargs, name=name))
    return 'met'


def story(world):
    names = [f'obj-{number:03}' for number in range(COUNT)]
    for name in names[::2]:
        world.create(name)
    world.start()
    for name in names[1::2]:
        world.create(name)
    world.wait_record('create_fn', COUNT)
    for name in names:
        world.wait_handled(name)
    world.sentinel()

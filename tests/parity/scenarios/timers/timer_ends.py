"""Timers end with their object: while they wait, and while they run."""

import asyncio

import kopf
from tests.parity.recorder import record


@kopf.on.startup()
def configure(settings, **_):
    # Upstream lets go of objects only so often, if their timers did not end at once.
    settings.background.cancellation_polling = 0.5


@kopf.timer('kopfexamples', interval=60, labels={'timer': 'waits'})
async def waiting_fn(**kwargs):
    record('waiting_fn', kwargs)


@kopf.timer('kopfexamples', interval=60, labels={'timer': 'runs'})
async def running_fn(stopped, **kwargs):
    record('running_fn', kwargs, stage='started')
    while not stopped:
        await asyncio.sleep(0.05)
    record('running_fn', kwargs, stage='stopped', reason=stopped.reason.name)


@kopf.timer('kopfexamples', interval=60, labels={'timer': 'waits'})
def sync_fn(**kwargs):
    record('sync_fn', kwargs)


UNORDERED = True


def story(world):
    world.start()
    world.create('waits', labels={'timer': 'waits'})
    world.create('runs', labels={'timer': 'runs'})
    world.wait_record('waiting_fn')
    world.wait_record('sync_fn')
    world.wait_record('running_fn')
    for name in 'waits', 'runs':
        world.wait(name, lambda body: body['metadata'].get('finalizers'))
        world.delete(name)
    for name in 'waits', 'runs':
        world.wait_gone(name)

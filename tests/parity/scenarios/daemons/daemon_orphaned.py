"""A daemon that does not exit at all is given up, and the object is released."""

import asyncio

import kopf
from tests.parity.recorder import record


@kopf.daemon('kopfexamples', cancellation_timeout=0.5)
async def daemon_fn(stopped, **kwargs):
    record('daemon_fn', kwargs, stage='started')
    while True:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            record('daemon_fn', kwargs, stage='deaf')


def story(world):
    world.start()
    world.create('obj')
    world.wait_record('daemon_fn', stage='started')
    world.wait('obj', lambda body: body['metadata'].get('finalizers'))
    world.delete('obj')
    world.wait_gone('obj')
    world.wait_log('did not exit in time')
    world.kill()

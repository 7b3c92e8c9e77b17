"""A daemon that does not look at its flag is cancelled; the object is released then."""

import asyncio

import kopf
from tests.parity.recorder import record


@kopf.daemon('kopfexamples', cancellation_backoff=0.3, cancellation_timeout=5)
async def daemon_fn(stopped, **kwargs):
    record('daemon_fn', kwargs, stage='started')
    try:
        await asyncio.sleep(100)
    except asyncio.CancelledError:
        record('daemon_fn', kwargs, reason=stopped.reason.value, stage='cancelled')
        raise


def story(world):
    world.start()
    world.create('obj')
    world.wait_record('daemon_fn', stage='started')
    world.wait('obj', lambda body: body['metadata'].get('finalizers'))
    world.delete('obj')
    world.wait_record('daemon_fn', stage='cancelled')
    world.wait_gone('obj')

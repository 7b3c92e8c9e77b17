"""A daemon that needs a moment to end holds its object. Upstream looks after it every minute by
default, so it lets go of the object that late; ours does when the last daemon ends.
"""

import asyncio

import kopf
from tests.parity.recorder import record


@kopf.daemon('kopfexamples')
async def daemon_fn(stopped, **kwargs):
    record('daemon_fn', kwargs, stage='started')
    await stopped.wait()
    await asyncio.sleep(0.5)
    record('daemon_fn', kwargs, stage='ended')


def story(world):
    world.start()
    world.create('obj')
    world.wait_record('daemon_fn', stage='started')
    world.wait('obj', lambda body: body['metadata'].get('finalizers'))
    world.delete('obj')
    world.wait_record('daemon_fn', stage='ended')
    gone = world.happens(lambda: world.get('obj') is None, within_seconds=10)
    world.note('gone with its last daemon', gone)
    world.kill()

"""What arbitrary errors of daemons mean, by their modes."""

import asyncio
import time

import kopf
from tests.parity.recorder import record

# All of them end only when the object is held; else, it would depend on the time whether it is.


@kopf.daemon('kopfexamples', errors=kopf.ErrorsMode.IGNORED)
async def ignored_fn(meta, **kwargs):
    record('ignored_fn', kwargs)
    while not meta.get('finalizers'):
        await asyncio.sleep(0.05)
    raise ValueError('ignored')


@kopf.daemon('kopfexamples', errors=kopf.ErrorsMode.PERMANENT)
def permanent_fn(meta, **kwargs):
    record('permanent_fn', kwargs)
    while not meta.get('finalizers'):
        time.sleep(0.05)
    raise ValueError('permanent')


@kopf.daemon('kopfexamples')
async def given_up_fn(meta, **kwargs):
    record('given_up_fn', kwargs)
    while not meta.get('finalizers'):
        await asyncio.sleep(0.05)
    raise kopf.PermanentError('given up')


UNORDERED = True


def story(world):
    world.start()
    world.create('obj')
    for id in 'ignored_fn', 'permanent_fn', 'given_up_fn':
        world.wait_record(id)
    world.wait_log('will ignore it: ignored')
    world.wait_log('will stop now: permanent')
    world.wait_log('failed permanently: given up')
    world.patch('obj', spec={'field': 'changed'})
    world.wait('obj', lambda body: not body['metadata'].get('finalizers'))

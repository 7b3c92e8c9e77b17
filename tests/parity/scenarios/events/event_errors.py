"""Errors of event handlers are logged and ignored; the other handlers go on."""

import asyncio

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.event('kopfexamples', when=lambda type, **_: type == 'DELETED')
def failing_fn(**kwargs):
    record('failing_fn', kwargs)
    raise ValueError('boo')


@kopf.on.event('kopfexamples', when=lambda type, **_: type == 'DELETED')
async def permanent_fn(**kwargs):
    await asyncio.sleep(0)
    record('permanent_fn', kwargs)
    raise kopf.PermanentError('for ever')


@kopf.on.event('kopfexamples', when=lambda type, **_: type == 'DELETED')
async def temporary_fn(**kwargs):
    await asyncio.sleep(0)
    record('temporary_fn', kwargs)
    raise kopf.TemporaryError('for now', delay=0.1)


def story(world):
    world.start()
    world.sentinel()
    world.create('obj')
    world.sentinel()
    world.delete('obj')
    world.wait_record('temporary_fn', name='obj')
    world.sentinel()


UNORDERED = True

"""Sync handlers run in threads, async ones in the loop; partials, wrappers and methods work."""

import asyncio
import functools
import threading

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
def sync_fn(**kwargs):
    record('sync_fn', kwargs, main=threading.current_thread() is threading.main_thread())


@kopf.on.create('kopfexamples')
async def async_fn(**kwargs):
    await asyncio.sleep(0.01)
    record('async_fn', kwargs, main=threading.current_thread() is threading.main_thread())


class Owner:
    def method(self, **kwargs):
        record('method', kwargs)
        return 'method'

    async def async_method(self, **kwargs):
        record('async_method', kwargs)
        return 'async method'


def wrapped(func):
    @functools.wraps(func)
    def wrapper(**kwargs):
        return func(**kwargs)

    return wrapper


@kopf.on.create('kopfexamples')
@wrapped
async def wrapped_fn(**kwargs):
    record('wrapped_fn', kwargs)
    return 'wrapped'


kopf.on.create('kopfexamples')(Owner().method)
kopf.on.create('kopfexamples')(Owner().async_method)
kopf.on.create('kopfexamples', id='partial')(functools.partial(sync_fn))


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()

"""Context variables: what one handler sets, and what the next ones of the object see."""

import contextvars

import kopf
from tests.parity.recorder import record, sentinel

sentinel()
var = contextvars.ContextVar('var', default='default')


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def sync_setter(**kwargs):
    record('sync_setter', kwargs, var=var.get())
    var.set('by sync')


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def after_sync(**kwargs):
    record('after_sync', kwargs, var=var.get())


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def async_setter(**kwargs):
    record('async_setter', kwargs, var=var.get())
    var.set('by async')


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def after_async(**kwargs):
    record('after_async', kwargs, var=var.get())


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()

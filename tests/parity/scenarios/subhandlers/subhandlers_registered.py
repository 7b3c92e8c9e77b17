"""Sub-handlers by kopf.register() and by kopf.execute() of functions, as a mapping and as
a list.
"""

import functools

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


def child(name, **kwargs):
    record('child', kwargs, name=name)
    return f'by {name}'


async def async_child(**kwargs):
    record('async_child', kwargs)


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def registering_fn(**kwargs):
    record('registering_fn', kwargs)
    kopf.register(child, id='one')
    kopf.register(fn=functools.partial(child), id='two')


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def mapping_fn(**kwargs):
    record('mapping_fn', kwargs)
    await kopf.execute(fns={'x': child, 'y': async_child})
    record('mapping_fn: after', kwargs)
    return 'executed'


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def list_fn(**kwargs):
    record('list_fn', kwargs)
    await kopf.execute(fns=[child, async_child])
    record('list_fn: after', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()

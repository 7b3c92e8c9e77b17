"""While the handlers of 100 objects wait, other objects and other kinds are handled: created,
changed, indexed, and deleted.
"""

import asyncio
import os

import kopf
from tests.parity.recorder import record, sentinel

COUNT = 100
sentinel()


@kopf.on.create('kopfexamples', labels={'slow': 'yes'})
async def slow_fn(**kwargs):
    record('slow_fn', kwargs, stage='started')
    while not os.path.exists('go'):
        await asyncio.sleep(0.1)
    record('slow_fn', kwargs, stage='ended')


@kopf.on.create('kopfstatuses')
@kopf.on.update('kopfstatuses')
@kopf.on.delete('kopfstatuses')
async def other_fn(spec, **kwargs):
    record('other_fn', kwargs, field=spec['field'])


@kopf.index('kopfstatuses')
def index_fn(name, spec, **_):
    return {name: spec['field']}


@kopf.on.create('kopfexamples', labels={'reader': 'yes'})
def reader_fn(index_fn, **kwargs):
    record('reader_fn', kwargs, content={key: list(store) for key, store in index_fn.items()})


def story(world):
    names = [f'obj-{number:03}' for number in range(COUNT)]
    world.start()
    for name in names:
        world.create(name, labels={'slow': 'yes'})
    world.wait_record('slow_fn', COUNT, stage='started')
    world.create('other', plural='kopfstatuses')
    world.wait_handled('other', plural='kopfstatuses')
    world.patch('other', spec={'field': 'changed'}, plural='kopfstatuses')
    world.wait_record('other_fn', field='changed', reason='update')
    world.wait_handled('other', plural='kopfstatuses')
    world.create('reader', labels={'reader': 'yes'})
    world.wait_handled('reader')
    world.delete('other', plural='kopfstatuses')
    world.wait_gone('other', plural='kopfstatuses')
    world.note('still waiting', len(world.records('slow_fn', stage='ended')))
    (world.folder / 'go').touch()
    for name in names:
        world.wait_handled(name)
    world.sentinel()

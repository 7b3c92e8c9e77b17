"""The operator is killed between two handlers of an update, and the object is edited twice before
it is back, once in a field that neither update nor creation had.

As in ``killed_and_edited``, upstream shows the last state only to the handler that was not called
yet, while ours shows it to both.
"""

import asyncio
import os

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.update('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def first_fn(spec, **kwargs):
    record('first_fn', {'name': kwargs['name']}, spec=spec)


@kopf.on.update('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def second_fn(spec, **kwargs):
    record('second_fn', {'name': kwargs['name']}, spec=spec)
    while not os.environ.get('WORKS'):
        await asyncio.sleep(1)


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def create_fn(**kwargs):
    record('create_fn', {'name': kwargs['name']})


UNORDERED = True


def story(world):
    def last_seen(handler):
        return world.records(handler)[-1]['spec']

    world.start()
    world.create('obj', spec={'field': 'first'})
    world.wait_handled('obj')
    world.patch('obj', spec={'field': 'second'})
    world.wait_record('second_fn')
    world.kill()
    world.patch('obj', spec={'field': 'third'})
    world.patch('obj', spec={'field': 'last', 'other': 'added'})
    world.start(env={'WORKS': 'yes'})
    world.wait_record('second_fn', spec={'field': 'last', 'other': 'added'})
    world.wait_handled('obj')
    world.sentinel()
    world.note('last seen', {name: last_seen(name) for name in ('first_fn', 'second_fn')})

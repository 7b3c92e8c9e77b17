"""The operator is killed between two handlers, and the object is edited before it is back.

Upstream goes on with the second handler, and stores the new state as handled: the first one never
sees it. Ours shows it to both.
"""

import asyncio
import os

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
@kopf.on.update('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def first_fn(spec, **kwargs):
    record('first_fn', {'name': kwargs['name']}, field=spec['field'])


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
@kopf.on.update('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def second_fn(spec, **kwargs):
    record('second_fn', {'name': kwargs['name']}, field=spec['field'])
    while not os.environ.get('WORKS'):
        await asyncio.sleep(1)


UNORDERED = True


def story(world):
    def last_seen(handler):
        return world.records(handler)[-1]['field']

    world.start()
    world.create('obj', spec={'field': 'first'})
    world.wait_record('second_fn')
    world.kill()
    world.patch('obj', spec={'field': 'last'})
    world.start(env={'WORKS': 'yes'})
    world.wait_record('second_fn', field='last')
    world.wait_handled('obj')
    world.sentinel()
    world.note('last seen', {name: last_seen(name) for name in ('first_fn', 'second_fn')})

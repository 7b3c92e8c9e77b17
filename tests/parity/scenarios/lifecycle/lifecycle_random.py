"""Randomized and shuffled: any order, but each handler once."""

import kopf
from tests.parity.recorder import record, sentinel

UNORDERED = True
sentinel()

kopf.set_default_lifecycle(kopf.lifecycles.randomized)


def make(number):
    @kopf.on.create('kopfexamples', id=f'fn-{number}')
    def fn(**kwargs):
        record(f'fn-{number}', kwargs)
        return number


for number in range(4):
    make(number)


@kopf.on.update('kopfexamples')
async def update_fn(**kwargs):
    record('update_fn', kwargs)
    await kopf.execute(
        fns={'x': lambda **_: 'x', 'y': lambda **_: 'y'}, lifecycle=kopf.lifecycles.shuffled
    )


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.patch('obj', spec={'field': 'changed'})
    world.wait_log('Updating is processed')
    world.wait_handled('obj')
    world.sentinel()

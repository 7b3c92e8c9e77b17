"""Several handlers of one cause, with the default lifecycle: one at a time, as declared."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
def first_fn(**kwargs):
    record('first_fn', kwargs, 'annotations')
    return 1


@kopf.on.create('kopfexamples')
async def second_fn(**kwargs):
    record('second_fn', kwargs, 'status')
    return 2


@kopf.on.create('kopfexamples', id='third')
def third_fn(**kwargs):
    record('third', kwargs, 'status')
    return 3


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()

"""All handlers in one go: one patch for all of them."""

import kopf
from tests.parity.recorder import record, sentinel

UNORDERED = True
sentinel()

kopf.set_default_lifecycle(kopf.lifecycles.all_at_once)


@kopf.on.create('kopfexamples')
async def first_fn(**kwargs):
    record('first_fn', kwargs, 'status', 'annotations')
    return 1


@kopf.on.create('kopfexamples')
async def second_fn(retry, **kwargs):
    record('second_fn', dict(kwargs, retry=retry))
    if not retry:
        raise kopf.TemporaryError('once more', delay=0.2)
    return 2


@kopf.on.create('kopfexamples')
def third_fn(**kwargs):
    record('third_fn', kwargs, 'status', 'annotations')
    return 3


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()

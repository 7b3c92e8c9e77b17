"""A lifecycle of one's own: it gets the handlers and the kwargs, and chooses.

Upstream also calls it with an empty choice: for the sub-handlers that are not there.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


def last_first(handlers, *, state, body, **kwargs):
    if body['metadata']['name'] == 'obj':
        record(
            'last_first',
            {'name': 'obj'},
            handlers=[handler.id for handler in handlers],
            retries=[state[handler.id].retries for handler in handlers],
        )
    return handlers[-1:]


kopf.set_default_lifecycle(last_first)


@kopf.on.create('kopfexamples')
def first_fn(**kwargs):
    record('first_fn', kwargs)


@kopf.on.create('kopfexamples')
def second_fn(**kwargs):
    record('second_fn', kwargs)


@kopf.on.create('kopfexamples')
def third_fn(**kwargs):
    record('third_fn', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()

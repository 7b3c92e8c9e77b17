"""The object is edited between two handlers of its creation, while the operator runs.

Upstream shows the new state only to the second one, and stores it as handled; ours makes an update
of it, for both.
"""

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
    if not os.path.exists('go'):
        raise kopf.TemporaryError('not yet', delay=0.5)


UNORDERED = True


def story(world):
    def last_seen(handler):
        return world.records(handler)[-1]['field']

    world.start()
    world.create('obj', spec={'field': 'first'})
    world.wait_record('second_fn')
    world.patch('obj', spec={'field': 'last'})
    world.wait_record('second_fn', field='last')
    (world.folder / 'go').touch()
    world.wait_handled('obj')
    world.sentinel()
    world.note('last seen', {name: last_seen(name) for name in ('first_fn', 'second_fn')})

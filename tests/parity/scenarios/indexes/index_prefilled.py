"""The indices are complete before the first handler is called, over all kinds."""

import kopf
from tests.parity.recorder import record

UNORDERED = True


@kopf.index('kopfexamples')
def examples(name, spec, **kwargs):
    return {spec.get('field'): name}


@kopf.index('configmaps', labels={'indexed': 'yes'})
async def maps(name, **kwargs):
    return {name: None}


@kopf.on.create('kopfexamples')
@kopf.on.resume('kopfexamples')
def handle_fn(examples, maps, **kwargs):
    record(
        'handle_fn',
        kwargs,
        examples={key: sorted(store) for key, store in examples.items()},
        maps=sorted(maps),
    )


@kopf.on.event('kopfexamples')
def event_fn(examples, type, **kwargs):
    if type is None:
        record('event_fn', kwargs, count=sum(len(store) for store in examples.values()))


def story(world):
    for number in range(12):
        world.create(f'obj-{number}', spec={'field': f'value-{number % 3}'})
    for number in range(5):
        world.create(f'map-{number}', plural='configmaps', labels={'indexed': 'yes'}, data={})
    world.start()
    for number in range(12):
        world.wait_handled(f'obj-{number}')

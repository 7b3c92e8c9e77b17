"""Creations by the value of a field."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


def make(id, **options):
    @kopf.on.create('kopfexamples', id=id, **options)
    def recording_fn(**kwargs):
        record(id, kwargs)


make('field', field='spec.field')
make('value', field='spec.field', value='x')
make('present', field='spec.field', value=kopf.PRESENT)
make('absent', field='spec.field', value=kopf.ABSENT)
make(
    'callback',
    field='spec.field',
    value=lambda value, spec, **_: value in ('x', 'y') and spec.get('more'),
)


def story(world):
    world.start()
    for name, spec in {
        'x': {'field': 'x'},
        'y': {'field': 'y', 'more': 1},
        'none': {'more': 1},
        'null': {'field': ''},
    }.items():
        world.create(name, spec=spec)
        world.wait_handled(name)
    world.sentinel()

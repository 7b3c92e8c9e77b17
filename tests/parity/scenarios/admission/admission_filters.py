"""Filters of webhooks: fields, values, annotations, callbacks."""

import kopf
from tests.parity.recorder import record
from tests.parity.webhooks import LABELS, serve

serve()


def make(id, **filters):
    @kopf.on.validate('kopfexamples', labels=LABELS, id=id, **filters)
    def recording_fn(**kwargs):
        record(id, kwargs, 'operation')


make('field', field='spec.x')
make('value', field='spec.x', value=5)
make('absent', field='spec.x', value=kopf.ABSENT)
make('callback', field='spec.x', value=lambda value, **_: value == 7)
make('annotation', annotations={'note': kopf.PRESENT})
make('when', when=lambda spec, operation, **_: spec.get('x') == 7 and operation == 'CREATE')

UNORDERED = True


def story(world):
    world.start()
    world.wait_configured(count=6, by='absent/spec.x')
    world.create_asked('five', {'x': 5})
    world.create_asked('seven', {'x': 7})
    world.create_asked('none', {}, annotations={'note': 'yes'})
    world.patch('seven', spec={'x': 5})
    world.patch('five', spec={'x': None})

"""A kind is defined while the operator runs, is removed with its objects, and is defined again."""

import os

import kopf
from tests.parity.recorder import record, sentinel

ALSO = ['guests']
GROUP = f'{os.environ["PARITY_WORLD"]}.dev' if 'PARITY_WORLD' in os.environ else ''
sentinel()


@kopf.on.create(GROUP, 'guests')
@kopf.on.update(GROUP, 'guests')
def change_fn(spec, **kwargs):
    record('change_fn', kwargs, field=spec.get('field'))


def story(world):
    world.start()
    world.sentinel()
    world.define('guests')
    world.create('first', {'field': 'value'}, plural='guests')
    world.wait_handled('first', plural='guests')
    world.patch('first', spec={'field': 'changed'}, plural='guests')
    world.wait_record('change_fn', field='changed')
    world.wait_handled('first', plural='guests')
    world.undefine('guests')
    world.sentinel()
    world.define('guests')
    world.create('second', {'field': 'value'}, plural='guests')
    world.wait_handled('second', plural='guests')
    world.sentinel()

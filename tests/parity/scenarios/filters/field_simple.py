"""A field handler is called when the field appears, changes, and goes; with the old and the new of
the field.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs)


@kopf.on.field('kopfexamples', field='spec.field')
def field_fn(**kwargs):
    record('field_fn', kwargs, 'spec')
    return {'seen': kwargs['new']}


def story(world):
    world.start()
    world.create('obj', spec={'other': 1})
    world.wait_handled('obj')
    world.create('full', spec={'field': 'from the start'})
    world.wait_handled('full')
    world.patch('obj', spec={'field': {'deep': 1}})
    world.wait_record('field_fn', name='obj', count=1)
    world.wait_handled('obj')
    world.patch('obj', spec={'other': 2})
    world.wait_handled('obj')
    world.patch('obj', spec={'field': {'deep': 2, 'wide': [1]}})
    world.wait_record('field_fn', name='obj', count=2)
    world.wait_handled('obj')
    world.patch('obj', spec={'field': None})
    world.wait_record('field_fn', name='obj', count=3)
    world.wait_handled('obj')
    world.sentinel()

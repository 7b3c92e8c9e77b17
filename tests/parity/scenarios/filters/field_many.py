"""Several field handlers, of nested fields and of the same field; the ids have the fields
in them.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.field('kopfexamples', field='spec.a')
@kopf.on.field('kopfexamples', field='spec.b.c')
@kopf.on.field('kopfexamples', field=('spec', 'b', 'dotted.name'))
def field_fn(**kwargs):
    record('field_fn', kwargs)
    return kwargs['new']


@kopf.on.field('kopfexamples', field='spec', id='whole')
def whole_fn(**kwargs):
    record('whole', kwargs)


def story(world):
    world.start()
    world.create('obj', spec={'a': 1, 'b': {'c': 2, 'dotted.name': 3}})
    world.wait_handled('obj')
    world.patch('obj', spec={'b': {'c': [1, 2]}})
    world.wait_record('whole', count=2)
    world.wait_handled('obj')
    world.patch('obj', spec={'b': {'dotted.name': None}})
    world.wait_record('whole', count=3)
    world.wait_handled('obj')
    world.sentinel()

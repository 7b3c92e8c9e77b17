"""A change during the downtime: both the update and the resume handlers are called, in
one cycle.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs)


@kopf.on.resume('kopfexamples')
def resume_fn(**kwargs):
    record('resume_fn', kwargs)


@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record('update_fn', kwargs)


@kopf.on.field('kopfexamples', field='spec.field')
def field_fn(**kwargs):
    record('field_fn', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.stop()
    world.patch('obj', spec={'field': 'changed', 'more': [1]})
    world.start()
    world.wait_log('Updating is processed')
    world.wait_handled('obj')
    world.sentinel()

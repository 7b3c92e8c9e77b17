"""One function under several decorators: once per cycle for the same id, once per id otherwise."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
@kopf.on.create('kopfexamples')
@kopf.on.update('kopfexamples')
@kopf.on.field('kopfexamples', field='spec.field')
def fn(**kwargs):
    record('fn', kwargs)
    return kwargs['reason']


@kopf.on.create('kopfexamples', id='a')
@kopf.on.create('kopfexamples', id='b')
def twice(**kwargs):
    record('twice', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.patch('obj', spec={'field': 'changed'})
    world.wait_log('Updating is processed')
    world.wait_handled('obj')
    world.sentinel()

"""A deletion during the downtime is handled at the next start."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs)


@kopf.on.delete('kopfexamples')
def delete_fn(**kwargs):
    record('delete_fn', kwargs, 'spec')


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.stop()
    world.delete('obj')
    world.note('blocked', world.get('obj')['metadata']['finalizers'])
    world.start()
    world.wait_gone('obj')
    world.sentinel()

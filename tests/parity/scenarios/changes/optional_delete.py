"""An optional deletion handler needs no finalizer, and is called if somebody else's finalizer gives
it the time.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs, 'meta.finalizers')


@kopf.on.delete('kopfexamples', optional=True)
def delete_fn(**kwargs):
    record('delete_fn', kwargs, 'meta.finalizers')


def story(world):
    world.start()
    world.create('blocked', metadata={'finalizers': ['example.com/other']})
    world.create('plain')
    world.wait_handled('blocked')
    world.wait_handled('plain')
    world.delete('plain')
    world.delete('blocked')
    world.wait_gone('plain')
    world.sentinel()
    world.note('blocked', world.get('blocked')['metadata'].get('annotations'))
    world.patch('blocked', metadata={'finalizers': []})
    world.wait_gone('blocked')
    world.sentinel()

"""With a creation handler alone, there is no finalizer; later changes are stored but handled by
nobody.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
async def create_fn(**kwargs):
    record('create_fn', kwargs, 'spec', 'status', 'meta.finalizers')


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.patch('obj', spec={'field': 'changed'})
    world.wait_handled('obj')
    world.delete('obj')
    world.wait_gone('obj')
    world.create('kept')
    world.wait_handled('kept')
    world.sentinel()

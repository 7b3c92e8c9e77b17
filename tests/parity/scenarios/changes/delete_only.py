"""A deletion handler alone: the finalizer comes at first sight, and goes when the handler
is done.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.delete('kopfexamples')
async def delete_fn(**kwargs):
    record('delete_fn', kwargs, 'meta.finalizers', 'spec')
    return 'never seen'


def story(world):
    world.start()
    world.create('obj', metadata={'finalizers': ['example.com/first']})
    world.wait('obj', lambda body: world.finalizer in body['metadata']['finalizers'])
    world.wait_handled('obj')
    world.note('finalizers', world.get('obj')['metadata']['finalizers'])
    world.delete('obj')
    world.wait('obj', lambda body: world.finalizer not in body['metadata']['finalizers'])
    world.note('annotations', world.get('obj')['metadata'].get('annotations'))
    world.patch('obj', metadata={'finalizers': []})
    world.wait_gone('obj')
    world.sentinel()

"""Many objects at once: each is handled, each once."""

import kopf
from tests.parity.recorder import record, sentinel

NAMES = ['obj-0', 'obj-1', 'obj-2', 'obj-3', 'obj-4', 'obj-5', 'obj-6', 'obj-7', 'obj-8', 'obj-9']
sentinel()


@kopf.on.create('kopfexamples')
async def create_fn(**kwargs):
    record('create_fn', kwargs)
    return kwargs['spec'].get('number')


@kopf.on.delete('kopfexamples')
async def delete_fn(**kwargs):
    record('delete_fn', kwargs, 'status')


def story(world):
    for number, name in enumerate(NAMES[:5]):
        world.create(name, spec={'number': number})
    world.start()
    for number, name in enumerate(NAMES[5:], start=5):
        world.create(name, spec={'number': number})
    for name in NAMES:
        world.wait_handled(name)
    for name in NAMES[::2]:
        world.delete(name)
    for name in NAMES[::2]:
        world.wait_gone(name)
    world.sentinel()

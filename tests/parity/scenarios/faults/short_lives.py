"""Objects that are created, changed, and deleted at once: nothing is left, nothing is
called twice.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.delete('kopfexamples', labels={'sentinel': kopf.ABSENT})
def delete_fn(**kwargs):
    record('delete_fn', {'name': kwargs['name']})


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(**kwargs):
    record('create_fn', {'name': kwargs['name']})


def story(world):
    world.start()
    world.sentinel()
    names = [f'obj-{number}' for number in range(10)]
    for name in names:
        world.create(name)
    for name in names:
        world.patch(name, spec={'field': 'changed'})
    for name in names:
        world.wait_record('create_fn', name=name)
        world.wait(name, lambda body: world.last_handled in body['metadata']['annotations'])
        world.delete(name)
    for name in names:
        world.wait_gone(name)
    world.sentinel()

"""Functions in the patch change the newest body; a conflict is solved by calling them again."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


def add_item(body):
    body['spec'].setdefault('items', []).append('by function')


def add_owner(body):
    body['metadata'].setdefault('labels', {})['by'] = 'function'


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(patch, **kwargs):
    record('create_fn', kwargs)
    patch.fns.append(add_item)
    patch.fns.append(add_owner)
    patch.status['merged'] = 'too'


@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record('update_fn', kwargs)


def story(world):
    world.start()
    world.create('obj', spec={'items': ['original']})
    world.wait_record('update_fn')
    world.wait_handled('obj')
    world.sentinel()

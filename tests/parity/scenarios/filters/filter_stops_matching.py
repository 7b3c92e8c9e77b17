"""An object that ceases to match loses the finalizer; nothing is called for it any more."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'managed': 'yes'})
def create_fn(**kwargs):
    record('create_fn', kwargs)


@kopf.on.update('kopfexamples', labels={'managed': 'yes'})
def update_fn(**kwargs):
    record('update_fn', kwargs)


@kopf.on.delete('kopfexamples', labels={'managed': 'yes'})
def delete_fn(**kwargs):
    record('delete_fn', kwargs)


def story(world):
    world.start()
    world.create('obj', labels={'managed': 'yes'})
    world.wait_handled('obj')
    world.wait('obj', lambda body: body['metadata'].get('finalizers'))
    world.patch('obj', metadata={'labels': {'managed': 'no'}})
    world.wait('obj', lambda body: not body['metadata'].get('finalizers'))
    world.sentinel()
    world.patch('obj', metadata={'labels': {'managed': 'yes'}}, spec={'field': 'changed'})
    world.wait('obj', lambda body: body['metadata'].get('finalizers'))
    world.wait_record('update_fn')
    world.wait_handled('obj')
    world.sentinel()

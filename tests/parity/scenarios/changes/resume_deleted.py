"""Resuming of objects that are being deleted: only where deleted=True."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.resume('kopfexamples', deleted=True)
def with_deleted(**kwargs):
    record('with_deleted', kwargs)


@kopf.on.resume('kopfexamples')
def without_deleted(**kwargs):
    record('without_deleted', kwargs)


@kopf.on.delete('kopfexamples')
def delete_fn(**kwargs):
    record('delete_fn', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.create('alive')
    world.wait_handled('obj')
    world.wait_handled('alive')
    world.wait('obj', lambda body: body['metadata'].get('finalizers'))
    world.kill()
    world.delete('obj')
    world.start()
    world.wait_gone('obj')
    world.wait_record('without_deleted', name='alive')
    world.wait_handled('alive')
    world.sentinel()

"""The life of one object with a handler of each kind: created, changed, deleted."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs, 'spec', 'meta.labels', 'namespace', 'labels', 'annotations')
    return {'created': True}


@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record('update_fn', kwargs, 'spec', 'status')
    return 'updated'


@kopf.on.delete('kopfexamples')
def delete_fn(**kwargs):
    record('delete_fn', kwargs, 'status')


def story(world):
    world.start()
    world.create('obj', spec={'field': 'value', 'list': [1, 2]}, labels={'a': 'b'})
    world.wait_handled('obj')
    world.patch('obj', spec={'field': 'changed', 'extra': {'deep': 1}})
    world.wait('obj', lambda body: body['status'].get('update_fn') == 'updated')
    world.wait_handled('obj')
    world.note('before deletion', world.get('obj')['metadata'].get('finalizers'))
    world.create('kept')
    world.wait_handled('kept')
    world.delete('obj')
    world.wait_gone('obj')
    world.sentinel()

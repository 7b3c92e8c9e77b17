"""A webhook completes an object, and then the handlers get the completed one."""

import kopf
from tests.parity.recorder import record
from tests.parity.webhooks import LABELS, serve

serve()


@kopf.on.mutate('kopfexamples', labels=LABELS, operations=['CREATE'])
def mutate_fn(patch, **_):
    patch.spec['completed'] = True


@kopf.on.create('kopfexamples', labels=LABELS)
def create_fn(**kwargs):
    record('create', kwargs, 'spec')


@kopf.on.update('kopfexamples', labels=LABELS)
def update_fn(**kwargs):
    record('update', kwargs, 'spec')


def story(world):
    world.start()
    world.wait_configured('mutating', by='mutate_fn')
    world.create_asked('obj', {'field': 'value'})
    world.wait_handled('obj')
    world.patch('obj', spec={'field': 'other'})
    world.wait_record('update')
    world.wait_handled('obj')

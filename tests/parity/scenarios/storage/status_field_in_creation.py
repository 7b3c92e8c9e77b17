"""The status changes in the middle of the creation, by the handlers themselves, and a field handler
looks at it: all handlers of the creation count in what is logged.
"""

import kopf
from tests.parity.recorder import record


@kopf.on.create('kopfexamples')
def create_fn(patch, **kwargs):
    record('create_fn', kwargs)
    patch.status['phase'] = 'Created'


@kopf.on.field('kopfexamples', field='status.phase', new='Created')
def phase_fn(patch, **kwargs):
    record('phase_fn', kwargs)
    patch.status['phase'] = 'Pending'


@kopf.on.field('kopfexamples', field='spec.field')
def field_fn(**kwargs):
    record('field_fn', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.wait('obj', lambda body: body['status']['phase'] == 'Pending')
    world.wait_handled('obj')

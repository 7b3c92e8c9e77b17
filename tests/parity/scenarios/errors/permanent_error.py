"""A PermanentError ends the handler for good, and the cycle, too; the next change is a
new cycle.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs)
    raise kopf.PermanentError('No way.')


@kopf.on.create('kopfexamples')
def other_fn(**kwargs):
    record('other_fn', kwargs)
    return 'done'


@kopf.on.update('kopfexamples')
async def update_fn(**kwargs):
    record('update_fn', kwargs)
    raise kopf.PermanentError()


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.patch('obj', spec={'field': 'changed'})
    world.wait_log('Updating is processed')
    world.wait_handled('obj')
    world.sentinel()

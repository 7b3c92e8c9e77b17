"""The patch of a handler is one that the API refuses: it has a label that is not valid. Upstream
calls the handler again at the next event of the object; ours logs it once, and takes it for
handled.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(patch, **kwargs):
    record('create_fn', {'name': kwargs['name']})
    patch.metadata.labels['bad'] = 'not a valid value!'


def story(world):
    world.start()
    world.create('obj')
    world.wait_record('create_fn')
    world.wait_log('is invalid: metadata.labels')
    world.sentinel()
    world.patch('obj', spec={'field': 'changed'})
    again = world.happens(lambda: len(world.records('create_fn')) > 1, within_seconds=6)
    world.note('called again', again)
    world.kill()

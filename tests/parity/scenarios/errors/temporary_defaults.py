"""A TemporaryError without a delay waits for a minute; without a message, it says None."""

import kopf
from tests.parity.recorder import record


@kopf.on.create('kopfexamples')
def empty_fn(**kwargs):
    record('empty_fn', kwargs)
    raise kopf.TemporaryError()


@kopf.on.create('kopfexamples')
async def worded_fn(**kwargs):
    record('worded_fn', kwargs)
    raise kopf.TemporaryError('Some words.')


def story(world):
    world.start()
    world.create('obj')
    world.wait(
        'obj',
        lambda body: 'delayed' in body['metadata']['annotations']['kopf.zalando.org/worded_fn'],
    )

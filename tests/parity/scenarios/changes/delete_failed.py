"""A deletion handler that fails for good lets the object go; so does one that has no
retries left.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.delete('kopfexamples')
def permanent_fn(**kwargs):
    record('permanent_fn', kwargs)
    raise kopf.PermanentError('cannot')


@kopf.on.delete('kopfexamples', retries=2, backoff=0.1)
async def broken_fn(**kwargs):
    record('broken_fn', kwargs)
    raise ValueError('broken')


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.delete('obj')
    world.wait_gone('obj')
    world.sentinel()

"""A deletion handler is retried while the finalizer holds the object."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.delete('kopfexamples')
def delete_fn(retry, **kwargs):
    record('delete_fn', dict(kwargs, retry=retry))
    if retry < 2:
        raise kopf.TemporaryError('not yet', delay=0.1)


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.delete('obj')
    world.wait_gone('obj')
    world.sentinel()

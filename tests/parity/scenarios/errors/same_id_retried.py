"""Two functions under one id share one record; the handler counts once in what is logged."""

import kopf
from tests.parity.recorder import record


@kopf.on.create('kopfexamples', id='shared')
def create_fn(retry, **kwargs):
    record('create_fn', dict(kwargs, retry=retry))
    if not retry:
        raise kopf.TemporaryError('not yet', delay=0.5)


@kopf.on.resume('kopfexamples', id='shared')
def resume_fn(**kwargs):
    record('resume_fn', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')

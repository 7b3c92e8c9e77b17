"""As soon as possible, which is the default: those with fewer retries go first."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()

kopf.set_default_lifecycle(kopf.lifecycles.asap)


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def first_fn(retry, **kwargs):
    record('first_fn', dict(kwargs, retry=retry))
    if retry < 2:
        raise kopf.TemporaryError('once more', delay=0)


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def second_fn(retry, **kwargs):
    record('second_fn', dict(kwargs, retry=retry))
    if retry < 1:
        raise kopf.TemporaryError('once more', delay=0)


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()

"""One by one: the first one is retried until it is done, then comes the second."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()

kopf.set_default_lifecycle(kopf.lifecycles.one_by_one)


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def first_fn(retry, **kwargs):
    record('first_fn', dict(kwargs, retry=retry))
    if retry < 2:
        raise kopf.TemporaryError('once more', delay=0)


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def second_fn(**kwargs):
    record('second_fn', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()

"""Any other error is temporary by default: with the backoff, until the retries are over."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', backoff=0.1, retries=3)
def create_fn(**kwargs):
    record('create_fn', kwargs)
    raise ValueError(f'try {kwargs["retry"]}')


@kopf.on.create('kopfexamples', backoff=0.1)
async def recovering_fn(retry, **kwargs):
    record('recovering_fn', dict(kwargs, retry=retry))
    if retry < 1:
        raise ZeroDivisionError('division by zero')


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()

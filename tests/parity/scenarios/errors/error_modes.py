"""errors= decides on all errors which are not of kopf itself."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', errors=kopf.ErrorsMode.IGNORED)
def ignored_fn(**kwargs):
    record('ignored_fn', kwargs)
    raise ValueError('ignored')


@kopf.on.create('kopfexamples', errors=kopf.ErrorsMode.PERMANENT)
def permanent_fn(**kwargs):
    record('permanent_fn', kwargs)
    raise ValueError('permanent')


@kopf.on.create('kopfexamples', errors=kopf.ErrorsMode.TEMPORARY, backoff=0.1)
async def temporary_fn(retry, **kwargs):
    record('temporary_fn', dict(kwargs, retry=retry))
    if not retry:
        raise ValueError('temporary')


@kopf.on.create('kopfexamples', errors=kopf.ErrorsMode.IGNORED)
def explicit_fn(**kwargs):
    record('explicit_fn', kwargs)
    raise kopf.PermanentError('explicit')


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()

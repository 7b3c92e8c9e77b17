"""The backoff of the settings is used where the handler has none."""

import kopf
from tests.parity.recorder import record


@kopf.on.startup()
def configure(settings, **kwargs):
    settings.execution.default_backoff = 0.1


@kopf.on.create('kopfexamples')
def create_fn(retry, **kwargs):
    record('create_fn', dict(kwargs, retry=retry))
    if retry < 2:
        raise KeyError('key')


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')

"""Handlers of webhooks without a server: the operator does not start."""

import kopf


@kopf.on.validate('kopfexamples')
def validate_fn(**_):
    pass


def story(world):
    world.start()
    world.note('failed', world.operator.wait() != 0)
    world.operator = None

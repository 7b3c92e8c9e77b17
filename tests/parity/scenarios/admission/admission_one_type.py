"""Managed webhooks of one type only: upstream makes an empty configuration of the other type, too;
ours does not.
"""

import kopf
from tests.parity.webhooks import LABELS, serve

serve()


@kopf.on.validate('kopfexamples', labels=LABELS)
def validate_fn(**_):
    pass


def story(world):
    world.start()
    world.wait_configured('validating', 1, by='validate_fn')
    other = world.happens(lambda: world.configuration('mutating') is not None, within_seconds=3)
    world.note('a configuration of the other type', other)

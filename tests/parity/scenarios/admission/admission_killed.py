"""Killed and started again: the configuration of before does not block the cluster any more."""

import kopf
from tests.parity.recorder import record
from tests.parity.webhooks import LABELS, serve

serve()


@kopf.on.validate('kopfexamples', labels=LABELS)
def validate_fn(**kwargs):
    record('validate', kwargs, 'operation')


def story(world):
    world.start()
    before = world.wait_configured()
    world.kill()
    world.note('webhooks while it is down', len(world.configuration() or []))
    world.start()
    while world.wait_configured() == before:
        pass
    world.wait_configured(by='validate_fn')
    world.attempt('again', world.create_asked, 'obj', {'x': 1})
    world.stop()
    world.note_configuration()

"""Without managed configurations: none is made, and the server is there for those of others."""

import kopf
from tests.parity.recorder import record, sentinel
from tests.parity.webhooks import LABELS, serve

serve()
sentinel()


@kopf.on.startup(id='unmanaged')
def configure(settings, **_):
    settings.admission.managed = None


@kopf.on.validate('kopfexamples', labels=LABELS)
def validate_fn(**kwargs):
    record('validate', kwargs)


def story(world):
    world.start()
    world.sentinel()
    world.note('validating', world.configuration('validating'))
    world.note('mutating', world.configuration('mutating'))
    world.attempt('unasked', world.create_asked, 'obj', {'x': 1})

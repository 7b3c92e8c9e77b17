"""The managed configurations: names, rules, policies, addresses; and what is left at the exit."""

import kopf
from tests.parity.webhooks import LABELS, serve

serve(path='/base')


@kopf.on.validate('kopfexamples', labels=LABELS)
def plain_fn(**_):
    pass


@kopf.on.validate('kopfexamples', labels={**LABELS, 'x': kopf.PRESENT, 'y': kopf.ABSENT,
                                          'z': lambda value, **_: False},
                  operations=['UPDATE', 'CREATE'], subresource='status', side_effects=True,
                  ignore_failures=True, persistent=True)
def options_fn(**_):
    pass


@kopf.on.validate('kopf.dev', 'v1', 'kopfexamples', labels=LABELS, field='spec.field', id='some/id')
def field_fn(**_):
    pass


@kopf.on.mutate('kopfexamples', labels=LABELS, operations=['CREATE'])
def mutate_fn(**_):
    pass


def story(world):
    world.start()
    world.wait_configured('validating', 3)
    world.wait_configured('mutating', 1)
    world.note_configuration('validating')
    world.note_configuration('mutating')
    world.stop()
    world.note_configuration('validating')
    world.note_configuration('mutating')

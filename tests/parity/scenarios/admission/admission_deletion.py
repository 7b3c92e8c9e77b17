"""Deletions: validated, mutated only by those who want just that."""

import kopf
from tests.parity.recorder import record
from tests.parity.webhooks import LABELS, serve

serve()
UNORDERED = True


@kopf.on.validate('kopfexamples', labels=LABELS, operations=['CREATE', 'DELETE'])
def protect_fn(spec, **kwargs):
    record('protect', kwargs, 'operation')
    if spec.get('protected') and kwargs['operation'] == 'DELETE':
        raise kopf.AdmissionError('Protected.', code=403)


@kopf.on.mutate('kopfexamples', labels=LABELS)
def mutate_fn(**kwargs):
    record('mutate', kwargs, 'operation')


@kopf.on.mutate('kopfexamples', labels=LABELS, operations=['DELETE'])
def mutate_deletion_fn(**kwargs):
    record('mutate deletion', kwargs, 'operation')


def story(world):
    world.start()
    world.wait_configured(by='protect_fn')
    world.wait_configured('mutating', 2, by='mutate_fn')
    world.create_asked('obj', {'protected': True})
    world.attempt('refused', world.delete, 'obj')
    world.patch('obj', spec={'protected': False})
    world.attempt('accepted', world.delete, 'obj')
    world.wait_gone('obj')

"""Mutation: by the dict, by its stanzas, by functions; several handlers see each other's patch."""

import kopf
from tests.parity.recorder import record
from tests.parity.webhooks import LABELS, serve

serve()


@kopf.on.mutate('kopfexamples', labels=LABELS)
def mutate_fn(spec, patch, **kwargs):
    record('mutate', kwargs, 'operation')
    patch.spec['added'] = {'deep': [1, 2]}
    patch.spec['removed'] = None
    patch.spec['unchanged'] = spec.get('unchanged')
    patch.metadata.annotations['a.b/c'] = 'x'
    patch.metadata.labels['extra'] = 'yes'


@kopf.on.mutate('kopfexamples', labels=LABELS, operations=['CREATE'])
async def functions_fn(patch, **kwargs):
    record('functions', kwargs, 'operation')

    @patch.fns.append
    def extend(body):
        body['spec'].setdefault('items', []).append('last')


def story(world):
    world.start()
    world.wait_configured('mutating', 2, by='mutate_fn')
    spec = {'removed': 1, 'unchanged': 5, 'items': ['first']}
    world.attempt('creation', world.create_asked, 'obj', spec)
    world.attempt('update', world.patch, 'obj', spec={'removed': 2, 'added': None})
    world.attempt('no spec', world.create_asked, 'bare', {})

"""A mutating handler changes the body in place, and gives that to the patch. Upstream compares the
patch with the changed body, and finds nothing to patch; ours compares it with the object.
"""

import kopf
from tests.parity.recorder import record
from tests.parity.webhooks import LABELS, serve

serve()


@kopf.on.mutate('kopfexamples', labels=LABELS)
def mutate_fn(body, patch, **kwargs):
    record('mutate', kwargs, 'operation')
    items = body['spec']['items']
    items.append('added')
    patch.spec['items'] = items


def story(world):
    world.start()
    world.wait_configured('mutating', 1, by='mutate_fn')
    world.attempt('creation', world.create_asked, 'obj', {'items': ['first']})

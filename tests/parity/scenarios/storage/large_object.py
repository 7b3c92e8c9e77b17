"""An object whose last handled state does not fit into the annotations. Upstream's patch is
refused, so the object is never handled; ours stores a shorter record.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(spec, **kwargs):
    record('create_fn', {'name': kwargs['name']}, size=len(spec['text']))


def story(world):
    world.start()
    world.create('obj', spec={'text': 'x' * 300_000})
    world.wait_record('create_fn')
    stored = world.happens(
        lambda: world.last_handled in world.get('obj')['metadata'].get('annotations', {}),
        within_seconds=6,
    )
    world.note('stored as handled', stored)
    world.sentinel()
    world.kill()

"""A finalizer of one's own; the default one of others is left alone."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.finalizer = 'my-op.example.com/hold'


@kopf.on.delete('kopfexamples')
def delete_fn(**kwargs):
    record('delete_fn', kwargs, 'meta.finalizers')


def story(world):
    world.start()
    world.create('obj', metadata={'finalizers': ['kopf.zalando.org/KopfFinalizerMarker']})
    world.wait_handled('obj')
    world.note('finalizers', world.get('obj')['metadata']['finalizers'])
    world.delete('obj')
    world.wait(
        'obj',
        lambda body: body['metadata']['finalizers'] == ['kopf.zalando.org/KopfFinalizerMarker'],
    )
    world.sentinel()
    world.patch('obj', metadata={'finalizers': []})
    world.wait_gone('obj')
    world.sentinel()

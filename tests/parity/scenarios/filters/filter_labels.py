"""Label filters: a value, presence, absence, a callback."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


def make(id, **labels):
    @kopf.on.create('kopfexamples', id=id, labels={'app': kopf.PRESENT, **labels})
    def recording_fn(**kwargs):
        record(id, kwargs, 'labels')


make('value', tier='front')
make('present', tier=kopf.PRESENT)
make('absent', tier=kopf.ABSENT)
make('callback', tier=lambda value, name, **_: (value or '').startswith('f') or name == 'bare')


def story(world):
    world.start()
    world.create('front', labels={'app': 'x', 'tier': 'front'})
    world.create('back', labels={'app': 'x', 'tier': 'back'})
    world.create('bare', labels={'app': 'x'})
    world.create('foreign', labels={'tier': 'front'})
    for name in 'front', 'back', 'bare':
        world.wait_handled(name)
    world.sentinel()

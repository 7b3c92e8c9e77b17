"""Ids of more than 63 characters: the keys of annotations are cut, with a hash, in both schemes."""

import kopf
from tests.parity.recorder import record


def make(id):
    @kopf.on.create('kopfexamples', id=id)
    def recording_fn(**kwargs):
        record(id, kwargs)
        raise kopf.TemporaryError('later', delay=60)


make('x' * 62 + 'y')
make('x' * 63 + 'y')
make('long_' * 30)
make('parent/' + 'child' * 20 + '<end>')


def story(world):
    world.start()
    world.create('obj')
    world.wait(
        'obj',
        lambda body: all('delayed' in text for text in body['metadata']['annotations'].values()),
    )

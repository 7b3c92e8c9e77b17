"""Annotation filters: a value, presence, absence, a callback."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


def make(id, **annotations):
    @kopf.on.create('kopfexamples', id=id, annotations={'example.com/use': 'yes', **annotations})
    def recording_fn(**kwargs):
        record(id, kwargs)


make('value', mode='fast')
make('present', mode=kopf.PRESENT)
make('absent', mode=kopf.ABSENT)
make('callback', mode=lambda value, **_: value is not None and len(value) > 4)


def story(world):
    world.start()
    world.create('fast', annotations={'example.com/use': 'yes', 'mode': 'fast'})
    world.create('slower', annotations={'example.com/use': 'yes', 'mode': 'slower'})
    world.create('bare', annotations={'example.com/use': 'yes'})
    world.create('foreign', annotations={'example.com/use': 'no', 'mode': 'fast'})
    for name in 'fast', 'slower', 'bare':
        world.wait_handled(name)
    world.sentinel()

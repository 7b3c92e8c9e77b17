"""Updates by a field: its presence, its old and new values, as values and as callbacks."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs)


def make(id, **options):
    @kopf.on.update('kopfexamples', id=id, field='spec.field', **options)
    def recording_fn(**kwargs):
        record(id, kwargs)


make('any')
make('one-two', old='one', new='two')
make('appeared', old=kopf.ABSENT)
make('vanished', new=kopf.ABSENT)
make('changed', old=kopf.PRESENT, new=kopf.PRESENT)
make('is-or-was-two', value='two')
make('to-three', new=lambda value, **_: value == 'three')


def story(world):
    world.start()
    world.create('obj', spec={'other': 1})
    world.wait_handled('obj')
    for number, value in enumerate(['one', 'two', 'three', None], start=1):
        world.patch('obj', spec={'field': value})
        world.wait_record('any', count=number)
        world.wait_handled('obj')
    world.patch('obj', spec={'other': 2})
    world.wait_handled('obj')
    world.sentinel()

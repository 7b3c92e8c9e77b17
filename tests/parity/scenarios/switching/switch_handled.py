"""An object handled by one implementation is not handled again by the other one."""

import kopf
from tests.parity.recorder import record, sentinel

SWITCH = True
sentinel()


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs)
    return {'one': 1}


@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record('update_fn', kwargs)


@kopf.on.delete('kopfexamples')
def delete_fn(**kwargs):
    record('delete_fn', kwargs)


def story(world):
    world.start(implementation=0)
    world.create(
        'obj',
        spec={'field': 'value', 'nested': {'list': [1, {'a': None}], 'text': 'žluť ☃ <&>'}},
        labels={'app': 'x'},
        annotations={'note': 'y'},
    )
    world.create('other')
    world.wait_handled('obj')
    world.wait_handled('other')
    world.kill()
    world.start(implementation=1)
    world.sentinel()
    world.patch('obj', spec={'field': 'changed'})
    world.wait_record('update_fn', name='obj')
    world.wait_handled('obj')
    world.delete('other')
    world.wait_gone('other')
    world.sentinel()

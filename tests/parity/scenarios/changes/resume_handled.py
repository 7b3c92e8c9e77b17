"""Objects handled before the start are resumed; those created while running are not."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.resume('kopfexamples')
def resume_fn(**kwargs):
    record('resume_fn', kwargs, 'spec')
    return {'resumed': True}


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs)


@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record('update_fn', kwargs)


def story(world):
    world.start()
    world.create('early')
    world.wait_handled('early')
    world.stop()
    world.start()
    world.wait('early', lambda body: body.get('status', {}).get('resume_fn'))
    world.create('late')
    world.wait_handled('late')
    world.patch('early', spec={'field': 'changed'})
    world.wait_record('update_fn', name='early')
    world.wait_handled('early')
    world.sentinel()

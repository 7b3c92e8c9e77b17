"""Handlers change the nested values of their input in place: nothing of that is stored."""

import kopf
from recorder import record, sentinel

sentinel()


def spoil(mapping):
    mapping['nested']['a'] = 'spoilt'
    mapping['nested']['list'].append('spoilt')


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(spec, body, **kwargs):
    record('create_fn', kwargs)
    spoil(spec)
    body['metadata']['labels']['x'] = 'spoilt'


@kopf.on.update('kopfexamples')
def update_fn(spec, old, new, **kwargs):
    record('update_fn', dict(kwargs, old=old, new=new))
    for mapping in spec, old['spec'], new['spec']:
        spoil(mapping)


def story(world):
    world.start()
    world.create('obj', spec={'nested': {'a': 1, 'list': [1]}}, labels={'x': 'y'})
    world.wait_handled('obj')
    world.patch('obj', spec={'nested': {'b': 2}})
    world.wait_record('update_fn')
    world.wait_handled('obj')
    world.sentinel()

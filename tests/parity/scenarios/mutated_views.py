"""Handlers may change the nested values in place: nobody else sees that."""

import kopf
from recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def first_fn(spec, body, **kwargs):
    nested = dict(spec)['nested']
    nested_copy = __import__('json').loads(__import__('json').dumps(nested))
    nested_copy['a'] = 'changed'
    record('first_fn', kwargs, spec=spec, nested=nested_copy, keys=sorted(body))
    return {'copied': nested_copy}


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def second_fn(spec, **kwargs):
    record('second_fn', kwargs, spec=spec, copied={**spec}, length=len(spec), has='nested' in spec)


def story(world):
    world.start()
    world.create('obj', spec={'nested': {'a': 1, 'list': [{'x': 1}]}})
    world.wait_handled('obj')
    world.sentinel()

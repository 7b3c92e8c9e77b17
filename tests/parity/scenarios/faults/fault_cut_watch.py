"""Faults of the API: the connections of the watches are cut, again and again. What has changed is
handled, and nothing is handled twice.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
@kopf.on.update('kopfexamples', labels={'sentinel': kopf.ABSENT})
def change_fn(spec, **kwargs):
    record('change_fn', kwargs, field=spec['field'])


@kopf.on.resume('kopfexamples', labels={'sentinel': kopf.ABSENT})
def resume_fn(**kwargs):
    record('resume_fn', kwargs)


@kopf.on.delete('kopfexamples', labels={'sentinel': kopf.ABSENT})
def delete_fn(**kwargs):
    record('delete_fn', kwargs)


def story(world):
    api_proxy = world.proxy()
    world.start()
    for name in 'stays', 'goes':
        world.create(name)
        world.wait_handled(name)
    for value in 'abc':
        world.wait_until('a watch to be cut', lambda: api_proxy.cut(world.is_watch()))
        world.patch('stays', spec={'field': value})
        world.wait_record('change_fn', name='stays', field=value)
        world.wait_handled('stays')
    world.wait_until('a watch to be cut', lambda: api_proxy.cut(world.is_watch()))
    world.delete('goes')
    world.wait_gone('goes')
    world.sentinel()

"""Faults of the API: a watch ends by an event ERROR of 410, since the version is too old; the
objects are listed again, what has changed is handled, and nothing is handled twice.
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


@kopf.on.delete('kopfexamples', labels={'sentinel': kopf.ABSENT, 'held': 'yes'})
def delete_fn(**kwargs):
    record('delete_fn', kwargs)


def story(world):
    api_proxy = world.proxy()
    status = {'kind': 'Status', 'apiVersion': 'v1', 'status': 'Failure', 'code': 410}
    event = {'type': 'ERROR', 'object': {**status, 'reason': 'Expired', 'message': 'too old'}}
    world.start()
    for name in 'stays', 'goes', 'held':
        world.create(name, labels={'held': 'yes'} if name == 'held' else None)
        world.wait_handled(name)
    expired = api_proxy.inject(world.is_watch(), code=200, content=event, times=1)
    world.wait_until('a watch to be cut', lambda: api_proxy.cut(world.is_watch()))
    world.patch('stays', spec={'field': 'changed'})
    world.delete('goes')
    world.delete('held')
    world.wait_until('the expiry', lambda: expired.met)
    world.wait_record('change_fn', name='stays', field='changed')
    world.wait_handled('stays')
    world.wait_gone('held')
    world.sentinel()

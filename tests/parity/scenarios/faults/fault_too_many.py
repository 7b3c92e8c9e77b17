"""Faults of the API: patches of the object are answered by 429 at first, with the time to wait."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.startup()
def configure(settings, **_):
    settings.networking.error_backoffs = [0.2, 0.2, 0.2]


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(patch, **kwargs):
    record('create_fn', kwargs)
    patch.status['patched'] = True
    return 'result'


@kopf.on.delete('kopfexamples', labels={'sentinel': kopf.ABSENT})
def delete_fn(**kwargs):
    record('delete_fn', kwargs, 'status')


def story(world):
    api_proxy = world.proxy()
    headers = {'Retry-After': '1'}
    refusals = api_proxy.inject(world.is_patch('obj'), code=429, times=2, headers=headers)
    world.start()
    world.create('obj')
    world.wait_until('two refusals', lambda: len(refusals.met) == 2)
    world.wait_handled('obj')
    world.delete('obj')
    world.wait_gone('obj')
    world.sentinel()

"""Faults of the API: patches of the object are answered by 409 once.

Upstream waits for another event of the object then; ours goes on.
"""

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
    refusals = api_proxy.inject(world.is_patch('obj'), code=409, times=1)
    world.start()
    world.create('obj')
    world.wait_until('the refusal', lambda: refusals.met)
    handled = world.happens(
        lambda: world.last_handled in world.get('obj')['metadata'].get('annotations', {}),
        within_seconds=6,
    )
    world.note('handled without another change', handled)
    world.patch('obj', metadata={'labels': {'changed': 'yes'}})
    world.wait_handled('obj')
    world.delete('obj')
    world.wait_gone('obj')
    world.sentinel()

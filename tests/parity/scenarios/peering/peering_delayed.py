"""A handler is to be called again, but the operator is paused by then: it is called after it."""

import kopf
from tests.parity.recorder import record

ALSO = ['kopfpeerings']


@kopf.on.create('kopfexamples')
def create_fn(retry, **kwargs):
    record('create_fn', dict(kwargs, retry=retry))
    if not retry:
        raise kopf.TemporaryError('once more', delay=2)


def story(world):
    peer = {'priority': 100, 'lifetime': 600, 'lastseen': '2100-01-01T00:00:00+00:00'}
    world.create('team', plural='kopfpeerings')
    world.start('--peering=team', env={'POD_ID': 'me'})
    world.create('obj')
    world.wait_record('create_fn', retry=0)
    world.wait('obj', lambda body: 'kopf.zalando.org/create_fn' in body['metadata']['annotations'])
    world.patch('team', status={'other': peer}, plural='kopfpeerings')
    world.wait_log('Pausing operations in favour of')
    called = world.happens(lambda: world.records('create_fn', retry=1), within_seconds=4)
    world.note('called in the pause', called)
    world.patch('team', status={'other': None}, plural='kopfpeerings')
    world.wait_record('create_fn', retry=1)
    world.wait_handled('obj')
    world.stop()
    world.wait('team', lambda body: not body['status'], plural='kopfpeerings')

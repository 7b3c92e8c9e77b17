"""Errors of daemons: they are called again after the delays, as often as allowed."""

import kopf
from tests.parity.recorder import record


@kopf.daemon('kopfexamples', retries=3, backoff=0.1)
async def daemon_fn(retry, patch, **kwargs):
    record('daemon_fn', dict(kwargs, retry=retry))
    patch.status['retry'] = retry
    if retry == 0:
        raise kopf.TemporaryError('not yet', delay=0.1)
    raise ValueError('boo')


def story(world):
    world.start()
    world.create('obj')
    world.wait_record('daemon_fn', retry=2)
    world.wait('obj', lambda body: body['status']['retry'] == 2)
    world.wait_log('it would exceed 3 retries')
    world.patch('obj', spec={'field': 'changed'})
    world.wait('obj', lambda body: not body['metadata'].get('finalizers'))

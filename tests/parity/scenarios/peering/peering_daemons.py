"""Daemons and timers stop while there is a peer of a higher priority, and start again after it."""

import kopf
from tests.parity.recorder import record

ALSO = ['kopfpeerings']


@kopf.daemon('kopfexamples')
async def daemon_fn(stopped, memo, **kwargs):
    memo.runs = memo.get('runs', 0) + 1
    record('daemon_fn', kwargs, stage='started', run=memo.runs)
    await stopped.wait()
    record('daemon_fn', kwargs, stage='stopped', reason=stopped.reason.name)


@kopf.timer('kopfexamples', interval=60)
async def timer_fn(**kwargs):
    record('timer_fn', kwargs)


UNORDERED = True


def story(world):
    peer = {'priority': 100, 'lifetime': 600, 'lastseen': '2100-01-01T00:00:00+00:00'}
    world.create('team', plural='kopfpeerings')
    world.start('--peering=team', env={'POD_ID': 'me'})
    world.create('obj')
    world.wait_record('daemon_fn', stage='started')
    world.wait_record('timer_fn')
    world.wait('obj', lambda body: body['metadata'].get('finalizers'))
    world.patch('team', status={'other': peer}, plural='kopfpeerings')
    world.wait_log('Pausing operations in favour of')
    world.wait_record('daemon_fn', stage='stopped', reason='OPERATOR_PAUSING')
    world.patch('team', status={'other': None}, plural='kopfpeerings')
    world.wait_log('Resuming operations after the pause.')
    world.wait_record('daemon_fn', 2, stage='started')
    world.wait_record('timer_fn', 2)
    world.stop()
    world.wait('team', lambda body: not body['status'], plural='kopfpeerings')

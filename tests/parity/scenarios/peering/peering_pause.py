"""The operator pauses while there is a peer of a higher priority, and goes on when it is gone."""

import kopf
from tests.parity.recorder import record

ALSO = ['kopfpeerings']


@kopf.on.create('kopfexamples')
def create_fn(spec, **kwargs):
    record('create_fn', kwargs, field=spec['field'])


@kopf.on.update('kopfexamples')
def update_fn(spec, **kwargs):
    record('update_fn', kwargs, field=spec['field'])


def story(world):
    peer = {'priority': 100, 'lifetime': 600, 'lastseen': '2100-01-01T00:00:00+00:00'}
    world.create('team', plural='kopfpeerings')
    world.start('--peering=team', env={'POD_ID': 'me'})
    world.create('first')
    world.wait_handled('first')
    world.patch('team', status={'other': peer}, plural='kopfpeerings')
    world.wait_log('Pausing operations in favour of [<Peer other: priority=100, lifetime=600, ')
    world.wait('team', lambda body: body['status']['me'], plural='kopfpeerings')
    world.create('early', spec={'field': 'early'})
    world.patch('early', spec={'field': 'late'})
    world.patch('team', status={'other': None}, plural='kopfpeerings')
    world.wait_log('Resuming operations after the pause.')
    world.wait_handled('early')
    world.patch('team', status={'other': peer}, plural='kopfpeerings')
    world.wait_log('Pausing operations in favour of', count=2)
    world.patch('early', spec={'field': 'again'})
    world.patch('early', spec={'field': 'finally'})
    world.patch('team', status={'other': None}, plural='kopfpeerings')
    world.wait_record('update_fn', field='finally')
    world.wait_handled('early')
    world.stop()
    world.wait('team', lambda body: not body['status'], plural='kopfpeerings')

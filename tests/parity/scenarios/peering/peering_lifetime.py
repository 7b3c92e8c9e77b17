"""A peer that is not heard of any more is dead: it is removed, and the operator goes on."""

import kopf
from tests.parity.recorder import record

ALSO = ['kopfpeerings']


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs)


def story(world):
    long_ago = '2020-01-01T00:00:00+00:00'
    world.create(
        'team',
        plural='kopfpeerings',
        status={
            'dead': {'priority': 100, 'lifetime': 60, 'lastseen': long_ago},
            'dying': {'priority': 100, 'lifetime': 3},
        },
    )
    world.create('obj')
    world.start('--peering=team', '--priority=5', env={'POD_ID': 'me'})
    body = world.wait('team', lambda body: 'dead' not in body['status'], plural='kopfpeerings')
    world.note('known', sorted(body['status'].get('me') or ['priority', 'lifetime', 'lastseen']))
    world.patch('team', status={'dying': {'lastseen': long_ago}}, plural='kopfpeerings')
    world.wait_handled('obj')
    world.wait('team', lambda body: [*body['status']] == ['me'], plural='kopfpeerings')

"""Operators of the same priority pause all, and say so; those of a lower one are ignored."""

import kopf
from tests.parity.recorder import record, sentinel

ALSO = ['kopfpeerings']

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(**kwargs):
    record('create_fn', kwargs)


def story(world):
    def peer(priority):
        return {'priority': priority, 'lifetime': 600, 'lastseen': '2100-01-01T00:00:00+00:00'}

    world.create('team', plural='kopfpeerings', status={'low': peer(-1)})
    world.start('--peering=team', env={'POD_ID': 'me'})
    world.sentinel()
    world.patch('team', status={'same': peer(0)}, plural='kopfpeerings')
    world.wait_log('warn', 'Possibly conflicting operators with the same priority: [<Peer same: ')
    world.wait_log('warn', 'Pausing all operators, including self: [')
    world.create('obj')
    world.patch('team', status={'same': None}, plural='kopfpeerings')
    world.wait_log(
        'Resuming operations after the pause. ',
        'Conflicting operators with the same priority are gone.',
    )
    world.wait_handled('obj')
    world.sentinel()

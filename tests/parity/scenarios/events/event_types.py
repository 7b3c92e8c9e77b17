"""Event handlers see the listing, the additions, changes, and deletions; without any
persistence.
"""

import kopf
from tests.parity.recorder import record


@kopf.on.event('kopfexamples')
def event_fn(event, **kwargs):
    record(
        'event_fn',
        kwargs,
        field=event['object']['spec'].get('field'),
        keys=sorted(event),
        deleting='deletionTimestamp' in kwargs['meta'],
    )


def story(world):
    world.create('early')
    world.start()
    world.wait_record('event_fn', name='early')
    world.create('obj')
    world.wait_record('event_fn', name='obj', type='ADDED')
    world.patch('obj', spec={'field': 'changed'})
    world.wait_record('event_fn', name='obj', field='changed')
    world.delete('obj')
    world.wait_record('event_fn', name='obj', type='DELETED')

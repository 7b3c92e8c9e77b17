"""An event handler may patch and return results; they are applied, and the next event sees them."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.event('kopfexamples', labels={'sentinel': kopf.ABSENT})
def event_fn(patch, labels, status, **kwargs):
    # With the type, equal calls in a row count as one: several events may come as one.
    event = {'name': kwargs['name'], 'type': None}
    record('event_fn', event, seen=labels.get('seen'), result=status.get('event_fn'))
    patch.metadata.labels['seen'] = 'yes'
    return {'constant': 1}


def story(world):
    world.start()
    world.create('obj')
    world.wait_record('event_fn', seen='yes', result={'constant': 1})
    world.sentinel()

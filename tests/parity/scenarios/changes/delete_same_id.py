"""One function for creation and deletion: an unfinished creation does not count for the
deletion.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
@kopf.on.delete('kopfexamples', labels={'sentinel': kopf.ABSENT})
def fn(reason, retry, **kwargs):
    record('fn', dict(kwargs, reason=reason, retry=retry))
    if reason == 'create' or retry < 1:
        raise kopf.TemporaryError('not ready', delay=2 if reason == 'create' else 0.1)


def story(world):
    world.start()
    world.create('obj')
    world.wait(
        'obj', lambda body: 'delayed' in body['metadata']['annotations']['kopf.zalando.org/fn']
    )
    world.delete('obj')
    world.wait_gone('obj')
    world.sentinel()

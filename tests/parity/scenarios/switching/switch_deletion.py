"""A deletion that waits for its handler is taken over: the finalizer of one is removed by the
other.
"""

import os

import kopf
from tests.parity.recorder import record, sentinel

SWITCH = True
sentinel()


@kopf.on.delete('kopfexamples', labels={'sentinel': kopf.ABSENT})
def delete_fn(retry, **kwargs):
    record('delete_fn', dict(kwargs, retry=retry))
    if not os.environ.get('WORKS'):
        raise kopf.TemporaryError('not here', delay=2)


def story(world):
    world.start(implementation=0)
    world.create('obj')
    world.create('idle')
    world.wait_handled('obj')
    world.wait_handled('idle')
    world.delete('obj')
    world.wait(
        'obj',
        lambda body: '"retries":1' in body['metadata']['annotations']['kopf.zalando.org/delete_fn'],
    )
    world.kill()
    world.delete('idle')
    world.start(implementation=1, env={'WORKS': '1'})
    world.wait_gone('obj')
    world.wait_gone('idle')
    world.sentinel()

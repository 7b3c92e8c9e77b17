"""Handlers that have succeeded are not called again after a restart in the middle of a cycle."""

import os

import kopf
from tests.parity.recorder import record


@kopf.on.create('kopfexamples')
def first_fn(**kwargs):
    record('first_fn', kwargs)
    return 'first'


@kopf.on.create('kopfexamples')
def second_fn(retry, **kwargs):
    record('second_fn', dict(kwargs, retry=retry))
    if not os.environ.get('WORKS'):
        raise kopf.TemporaryError('not here', delay=2)
    return 'second'


def story(world):
    world.start()
    world.create('obj')
    world.wait(
        'obj',
        lambda body: '"retries":1' in body['metadata']['annotations']['kopf.zalando.org/second_fn'],
    )
    world.kill()
    world.note('in between', world.get('obj')['metadata']['annotations'])
    world.note('status', world.get('obj').get('status'))
    world.start(env={'WORKS': '1'})
    world.wait_handled('obj')

"""The memo is one per object, kept over handlers and cycles, and begins as a copy of the operator's
one.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.startup()
def start_fn(memo, **kwargs):
    memo.base = 'base'
    memo['key'] = ['shared']


@kopf.on.create('kopfexamples')
def create_fn(memo, name, **kwargs):
    memo.count = 1
    memo['name'] = name
    record('create_fn', dict(kwargs, name=name), memo=dict(memo))


@kopf.on.update('kopfexamples')
async def update_fn(memo, **kwargs):
    memo.count += 1
    record(
        'update_fn',
        kwargs,
        memo=dict(memo),
        attribute=memo.name,
        missing=memo.get('missing'),
        type=type(memo).__name__,
    )


def story(world):
    world.start()
    world.create('one')
    world.create('two')
    world.wait_handled('one')
    world.wait_handled('two')
    for value in 'changed', 'again':
        world.patch('one', spec={'field': value})
        world.wait(
            'one',
            lambda body, value=value: value in body['metadata']['annotations'][world.last_handled],
        )
    world.patch('two', spec={'field': 'changed'})
    world.wait_record('update_fn', name='two')
    world.wait_handled('two')
    world.sentinel()

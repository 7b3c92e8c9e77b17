"""Timers tick only while the filters match; when they match again, they tick again."""

import kopf
from tests.parity.recorder import record


@kopf.timer('kopfexamples', interval=0.1, annotations={'run': 'yes'})
def timer_fn(memo, spec, **kwargs):
    field = spec['field']
    if memo.get('seen') != field:
        memo['seen'] = field
        record('timer_fn', dict(kwargs, spec=spec), 'spec.field')


# How often it ticks depends on the time.
UNORDERED = True


def story(world):
    world.start()
    world.create('obj')
    for value in 'a', 'b':
        world.patch('obj', spec={'field': value}, metadata={'annotations': {'run': 'yes'}})
        world.wait_record('timer_fn', **{'spec.field': value})
        world.wait('obj', lambda body: body['metadata'].get('finalizers'))
        world.patch('obj', metadata={'annotations': {'run': 'no'}})
        world.wait('obj', lambda body: not body['metadata'].get('finalizers'))
    world.kill()

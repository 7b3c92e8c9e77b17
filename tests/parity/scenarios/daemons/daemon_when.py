"""Callbacks of filters and of the initial delay: what they get."""

import kopf
from tests.parity.recorder import record

asked = set()


def when(spec, **kwargs):
    # How often the filters are asked depends on the time, but not about what.
    if spec['field'] not in asked:
        asked.add(spec['field'])
        record('when', kwargs, names=sorted([*kwargs, 'spec']), field=spec['field'])
    return spec['field'] == 'value'


def delay(**kwargs):
    record('delay', kwargs, names=sorted(kwargs))
    return 0.1


@kopf.daemon('kopfexamples', when=when, initial_delay=delay)
async def daemon_fn(stopped, **kwargs):
    record('daemon_fn', kwargs, stage='started')
    await stopped.wait()
    record('daemon_fn', kwargs, stage='stopped', reason=stopped.reason.name)


def story(world):
    world.start()
    world.create('obj')
    world.wait_record('daemon_fn', stage='started')
    world.wait('obj', lambda body: body['metadata'].get('finalizers'))
    world.patch('obj', spec={'field': 'changed'})
    world.wait_record('daemon_fn', stage='stopped')
    world.wait('obj', lambda body: not body['metadata'].get('finalizers'))

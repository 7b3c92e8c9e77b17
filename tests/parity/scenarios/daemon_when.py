"""Callbacks of filters and of the initial delay: what they get."""

import kopf
from recorder import record


def when(**kwargs):
    record('when', kwargs, names=sorted(kwargs))
    return kwargs['spec'].get('field') == 'value'


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
    seen = {record['id']: record.get('names') for record in world.records()}
    world.note('names', seen)
    world.wait('obj', lambda body: not body['metadata'].get('finalizers'))
    world.stop()  # how often the filters are asked depends on the time
    world.records_file.write_text('')

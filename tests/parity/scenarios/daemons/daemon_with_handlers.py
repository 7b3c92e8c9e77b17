"""Daemons beside handlers of changes: the deletion waits for both, and each has its log lines."""

import kopf
from tests.parity.recorder import record


@kopf.daemon('kopfexamples')
async def daemon_fn(stopped, **kwargs):
    await stopped.wait()
    record('daemon_fn', kwargs, reason=stopped.reason.name)


@kopf.on.create('kopfexamples')
@kopf.on.update('kopfexamples')
@kopf.on.delete('kopfexamples')
def change_fn(**kwargs):
    record('change_fn', kwargs)


UNORDERED = True


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.patch('obj', spec={'field': 'changed'})
    world.wait_record('change_fn', reason='update')
    world.wait_handled('obj')
    world.delete('obj')
    world.wait_gone('obj')
    world.wait_record('daemon_fn', reason='RESOURCE_DELETED')

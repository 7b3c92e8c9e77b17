"""Daemons start when the filters match, stop when they do not, and start again."""

import kopf
from tests.parity.recorder import record


@kopf.daemon('kopfexamples', labels={'run': 'yes'})
async def daemon_fn(stopped, **kwargs):
    record('daemon_fn', kwargs, stage='started')
    await stopped.wait()
    record('daemon_fn', kwargs, stage='stopped', reason=stopped.reason.name)


def story(world):
    world.start()
    world.create('obj')
    for count in 1, 2:
        world.patch('obj', metadata={'labels': {'run': 'yes'}})
        world.wait_record('daemon_fn', count, stage='started')
        world.wait('obj', lambda body: body['metadata'].get('finalizers'))
        world.patch('obj', metadata={'labels': {'run': 'no'}})
        world.wait_record('daemon_fn', count, stage='stopped')
        world.wait('obj', lambda body: not body['metadata'].get('finalizers'))

"""Daemons stop with the operator, and start again with the next one."""

import kopf
from tests.parity.recorder import record


@kopf.on.startup()
def configure(settings, **_):
    settings.background.instant_exit_timeout = 3


@kopf.daemon('kopfexamples')
async def async_fn(stopped, **kwargs):
    record('async_fn', kwargs, stage='started')
    await stopped.wait()
    record('async_fn', kwargs, stage='stopped', reason=stopped.reason.name)


@kopf.daemon('kopfexamples')
def sync_fn(stopped, **kwargs):
    record('sync_fn', kwargs, stage='started')
    stopped.wait()
    record('sync_fn', kwargs, stage='stopped', reason=stopped.reason.name)


UNORDERED = True


def story(world):
    world.start()
    world.create('obj')
    for count in 1, 2:
        world.wait_record('async_fn', count, stage='started')
        world.wait_record('sync_fn', count, stage='started')
        world.wait('obj', lambda body: body['metadata'].get('finalizers'))
        world.stop()
        world.wait_record('async_fn', count, stage='stopped')
        world.wait_record('sync_fn', count, stage='stopped')
        if count == 1:
            world.start()

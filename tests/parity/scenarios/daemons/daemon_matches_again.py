"""The filters of a daemon match again before its former run has ended. Upstream starts it at the
next event of the object; ours when the former run ends.
"""

import asyncio
import os

import kopf
from tests.parity.recorder import record


@kopf.daemon('kopfexamples', labels={'run': 'yes'}, cancellation_timeout=60)
async def daemon_fn(stopped, memo, **kwargs):
    memo.runs = memo.get('runs', 0) + 1
    record('daemon_fn', kwargs, run=memo.runs)
    await stopped.wait()
    while memo.runs == 1 and not os.path.exists('go'):
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            pass


@kopf.on.event('kopfexamples')
def event_fn(labels, **_):
    record('event_fn', {'name': 'seen', 'type': None}, run=labels['run'])


UNORDERED = True


def story(world):
    world.start()
    world.create('obj', labels={'run': 'yes'})
    world.wait_record('daemon_fn', run=1)
    world.wait('obj', lambda body: body['metadata'].get('finalizers'))
    world.patch('obj', metadata={'labels': {'run': 'no'}})
    world.wait_record('event_fn', run='no')
    world.patch('obj', metadata={'labels': {'run': 'yes'}})
    again = world.happens(lambda: world.records('daemon_fn', run=2), within_seconds=1)
    world.note('two runs at a time', again)
    (world.folder / 'go').touch()
    again = world.happens(lambda: world.records('daemon_fn', run=2), within_seconds=5)
    world.note('started again without another change', again)
    world.kill()

"""An operator beside the tasks of an application, in its event loop. When the operator ends,
upstream cancels the tasks that were created after its start; ours leaves them alone.
"""

import asyncio
import os

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def create_fn(**kwargs):
    record('create_fn', kwargs)


async def work():
    try:
        while not os.path.exists('enough'):
            await asyncio.sleep(0.05)
    except asyncio.CancelledError:
        record('work', {'name': 'work'}, end='cancelled')
    else:
        record('work', {'name': 'work'}, end='done')


async def application():
    stop = asyncio.Event()
    options = {'namespaces': [os.environ['PARITY_WORLD']], 'standalone': True, 'stop_flag': stop}
    operator = asyncio.create_task(kopf.operator(**options))
    while not os.path.exists('working'):
        await asyncio.sleep(0.05)
    task = asyncio.create_task(work())
    while not os.path.exists('end'):
        await asyncio.sleep(0.05)
    stop.set()
    await operator
    record('application', {'name': 'application'}, ended=True)
    await task


def story(world):
    world.start_program()
    world.create('obj')
    world.wait_handled('obj')
    (world.folder / 'working').touch()
    world.sentinel()
    (world.folder / 'end').touch()
    world.wait_record('application', ended=True)
    (world.folder / 'enough').touch()
    world.wait_until('the end of the program', lambda: not world.operator.is_running())
    world.note('exit code', world.operator.wait())
    world.operator = None


if __name__ == '__main__':
    kopf.configure(log_format=kopf.LogFormat.JSON)
    asyncio.run(application())

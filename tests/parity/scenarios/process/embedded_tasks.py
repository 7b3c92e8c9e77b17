"""``kopf.spawn_tasks()`` beside the tasks of the application, and ``kopf.run_tasks()`` for them."""

import asyncio
import os

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.startup()
async def startup_fn(**kwargs):
    record('startup_fn', kwargs)


@kopf.on.cleanup()
async def cleanup_fn(**kwargs):
    record('cleanup_fn', kwargs)


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def create_fn(memo, **kwargs):
    record('create_fn', kwargs, memo=dict(memo))


async def application():
    stop = asyncio.Event()
    memo = kopf.Memo(given='by the application')
    own = asyncio.create_task(stop_by_request(stop))
    tasks = await kopf.spawn_tasks(
        namespaces=[os.environ['PARITY_WORLD']], standalone=True, stop_flag=stop, memo=memo
    )
    record('application', {'name': 'application'}, spawned=len(tasks) > 0)
    await kopf.run_tasks(tasks, ignored=[own, asyncio.current_task()])
    record('application', {'name': 'application'}, done=all(task.done() for task in tasks))


async def stop_by_request(stop):
    while not os.path.exists('end'):
        await asyncio.sleep(0.05)
    stop.set()


def story(world):
    world.start_program()
    world.wait_record('application', spawned=True)
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()
    (world.folder / 'end').touch()
    world.wait_record('application', done=True)
    world.wait_until('the end of the program', lambda: not world.operator.is_running())
    world.note('exit code', world.operator.wait())
    world.operator = None


if __name__ == '__main__':
    kopf.configure(log_format=kopf.LogFormat.JSON)
    asyncio.run(application())

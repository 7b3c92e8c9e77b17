"""``kopf.operator()`` in the event loop of a thread, with its own registry: it is ready,
works, stops by its flag, and can be started again in another thread.
"""

import asyncio
import os
import pathlib
import signal
import threading
import time

import kopf
from tests.parity.recorder import record, write

registry = kopf.OperatorRegistry()


@kopf.on.startup(registry=registry)
def startup_fn(**kwargs):
    record('startup_fn', kwargs)


@kopf.on.cleanup(registry=registry)
def cleanup_fn(**kwargs):
    record('cleanup_fn', kwargs)


@kopf.on.login(registry=registry)
def login_fn(**kwargs):
    return kopf.login_with_kubeconfig(**kwargs)


@kopf.on.create('kopfexamples', registry=registry)
async def create_fn(**kwargs):
    record('create_fn', kwargs, main=threading.current_thread() is threading.main_thread())
    return 'embedded'


@kopf.on.create('kopfexamples', id='sentinel', labels={'sentinel': 'yes'}, registry=registry)
def sentinel_fn(name, **_):
    write({'id': 'sentinel', 'name': name})


def run(ready, stop):
    asyncio.run(
        kopf.operator(
            registry=registry,
            namespace=os.environ['PARITY_WORLD'],
            standalone=True,
            ready_flag=ready,
            stop_flag=stop,
        )
    )


def main():
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    kopf.configure(log_format=kopf.LogFormat.JSON)
    for number in range(2):
        ready, stop = threading.Event(), threading.Event()
        thread = threading.Thread(target=run, args=(ready, stop))
        thread.start()
        ready.wait(20)
        record('thread', {'name': f'thread-{number}'}, ready=ready.is_set())
        while not pathlib.Path(f'end-{number}').exists():
            time.sleep(0.05)
        stop.set()
        thread.join(20)
        record('thread', {'name': f'thread-{number}'}, alive=thread.is_alive())
    ended.wait()


def story(world):
    world.start_program()
    for number in range(2):
        world.wait_record('thread', name=f'thread-{number}', ready=True)
        world.create(f'obj-{number}')
        world.wait_handled(f'obj-{number}')
        world.sentinel()
        (world.folder / f'end-{number}').touch()
        world.wait_record('thread', name=f'thread-{number}', alive=False)


if __name__ == '__main__':
    main()

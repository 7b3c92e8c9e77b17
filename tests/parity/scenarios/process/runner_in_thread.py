"""``KopfRunner``: the operator runs in a thread of a test, several times in one process."""

import os
import pathlib
import signal
import threading
import time

import kopf.testing
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def create_fn(**kwargs):
    record('create_fn', kwargs, main=threading.current_thread() is threading.main_thread())


@kopf.on.delete('kopfexamples', labels={'sentinel': kopf.ABSENT})
def delete_fn(**kwargs):
    record('delete_fn', kwargs)


def main():
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    namespace = os.environ['PARITY_WORLD']
    for number in range(3):
        options = ['run', '--standalone', '-n', namespace, __file__]
        with kopf.testing.KopfRunner(options, timeout=20) as runner:
            while not pathlib.Path(f'end-{number}').exists():
                time.sleep(0.05)
        failed = runner.exception is not None
        record('runner', {'name': f'runner-{number}'}, code=runner.exit_code, failed=failed)
    ended.wait()


def story(world):
    world.start_program()
    for number in range(3):
        name = f'obj-{number}'
        world.create(name)
        world.wait_handled(name)
        world.delete(name)
        world.wait_gone(name)
        world.sentinel()
        (world.folder / f'end-{number}').touch()
        world.wait_record('runner', name=f'runner-{number}')


if __name__ == '__main__':
    main()

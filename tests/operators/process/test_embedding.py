"""Operators inside of other applications: web servers, threads, other event loops, each other."""

from __future__ import annotations

import ast
import json
import pathlib
import signal
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.client import kubeconfig, wait_for
from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess, python_under_test
from tests.support.plane import Plane

StartScript = Callable[..., OperatorProcess]


@pytest.fixture()
def script(plane: Plane, namespace: str, tmp_path: pathlib.Path) -> Iterator[StartScript]:
    """Start a Python script with the cluster and the namespace of the test in its environment."""
    started: list[OperatorProcess] = []

    def start(text: str, **env: str) -> OperatorProcess:
        config, path = tmp_path / 'kubeconfig', tmp_path / 'application.py'
        config.write_text(kubeconfig(plane.client, namespace=namespace))
        path.write_text(text)
        env = {'KUBECONFIG': str(config), 'NAMESPACE': namespace, **env}
        process = OperatorProcess(python_under_test(), log=tmp_path / 'application.log', env=env)
        process.command = [str(python_under_test()), str(path)]
        started.append(process)
        return process.start()

    yield start
    for process in started:
        process.kill()


WEB_SERVER = """
import asyncio, contextlib, logging, os
import kopf, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

logging.basicConfig(level=logging.INFO)
handled, beats = [], []
ready, stop = asyncio.Event(), asyncio.Event()

@kopf.on.create('kopfexamples')
async def create_fn(name, **_):
    handled.append(name)

async def beat():
    while True:
        beats.append(1)
        await asyncio.sleep(0.02)

@contextlib.asynccontextmanager
async def lifespan(app):
    foreign = asyncio.create_task(beat())
    app.state.operator = asyncio.create_task(kopf.operator(
        namespaces=[os.environ['NAMESPACE']], standalone=True, ready_flag=ready, stop_flag=stop))
    await ready.wait()
    yield
    stop.set()
    await app.state.operator
    print(f'The foreign task is cancelled: {foreign.cancelled() or foreign.done()}.', flush=True)

async def show(request):
    done = request.app.state.operator.done()
    return JSONResponse({'handled': handled, 'beats': len(beats), 'ended': done})

async def stop_it(request):
    stop.set()
    await request.app.state.operator
    return JSONResponse({})

app = Starlette(lifespan=lifespan, routes=[Route('/', show), Route('/stop', stop_it)])
uvicorn.run(app, port=int(os.environ['PORT']), loop=os.environ['LOOP'])
print('The server has ended.', flush=True)
"""


class WebServer:
    def __init__(self) -> None:
        with socket.socket() as listener:
            listener.bind(('127.0.0.1', 0))
            self.port = listener.getsockname()[1]

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f'http://127.0.0.1:{self.port}{path}', timeout=20) as answer:
            return json.load(answer)


@pytest.mark.parametrize('loop', ['asyncio', 'uvloop'])
@pytest.mark.parametrize('stopped_before', [True, False])
def test_inside_of_a_web_server(
    script: StartScript, examples: ExampleObjects, loop: str, stopped_before: bool
) -> None:
    """The end of the operator is not that of the server; a signal is for both of them."""
    server = WebServer()
    process = script(WEB_SERVER, PORT=str(server.port), LOOP=loop)
    wait_for(lambda: f'the server; {process.tail()}', lambda: 'beats' in server.get('/'))
    examples.create('obj')
    wait_for('the handling', lambda: server.get('/')['handled'] == ['obj'])
    if stopped_before:
        server.get('/stop')
        beats = server.get('/')['beats']
        wait_for('other tasks go on', lambda: server.get('/')['beats'] > beats)
        assert server.get('/')['ended']
    assert process.process is not None
    process.process.send_signal(signal.SIGTERM)
    # The server repeats the signal to itself when all is done.
    assert process.wait() in (0, -signal.SIGTERM)
    assert process.count('The foreign task is cancelled: False.') == 1, process.tail()
    assert process.count('Signal SIGTERM is received.') == (0 if stopped_before else 1)


def test_several_operators_in_threads_and_beside_each_other(
    script: StartScript, examples: ExampleObjects
) -> None:
    """Each has its own registry, its own loop or a shared one, and its own end."""
    process = script("""
import asyncio, os, threading
import kopf

def make(label):
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)

    @kopf.on.create('kopfexamples', registry=registry, id=f'create_{label}')
    def create_fn(name, patch, **_):
        print(f'{label} has seen {name}.', flush=True)

    return registry

def options(label, **flags):
    settings = kopf.OperatorSettings()
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=f'{label}.dev')
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=f'{label}.dev')
    settings.persistence.finalizer = f'{label}.dev/finalizer'
    return dict(registry=make(label), settings=settings, standalone=True,
                namespaces=[os.environ['NAMESPACE']], **flags)

stops = {label: threading.Event() for label in 'ab'}
readies = {label: threading.Event() for label in 'ab'}
threads = [
    threading.Thread(target=lambda label=label: kopf.run(**options(
        label, ready_flag=readies[label], stop_flag=stops[label])))
    for label in 'ab']
for thread in threads:
    thread.start()
for ready in readies.values():
    ready.wait()
print('Ready.', flush=True)

async def main():
    stop = asyncio.Event()
    both = [asyncio.create_task(kopf.operator(**options(label, stop_flag=stop))) for label in 'cd']
    while not os.path.exists('stop-a'):
        await asyncio.sleep(0.02)
    stops['a'].set()
    await asyncio.to_thread(threads[0].join)
    print('The first one is gone.', flush=True)
    while not os.path.exists('stop-all'):
        await asyncio.sleep(0.02)
    stop.set()
    stops['b'].set()
    await asyncio.gather(*both)
    await asyncio.to_thread(threads[1].join)

asyncio.run(main())
print('All are gone.', flush=True)
""")
    process.wait_log('Ready.')
    examples.create('one')
    for label in 'abcd':
        process.wait_log(f'{label} has seen one.')
    (process.cwd / 'stop-a').touch()
    process.wait_log('The first one is gone.')
    examples.create('two')
    for label in 'bcd':
        process.wait_log(f'{label} has seen two.')
    (process.cwd / 'stop-all').touch()
    process.wait_log('All are gone.')
    assert process.wait() == 0
    assert process.count('a has seen two.') == 0


KINDS_OF_FLAGS = ['asyncio events', 'asyncio futures', 'thread events', 'thread futures']


@pytest.mark.parametrize('flags', KINDS_OF_FLAGS)
def test_flags_of_all_kinds(script: StartScript, examples: ExampleObjects, flags: str) -> None:
    """`spawn_tasks` and `run_tasks`, with everything of the caller: registry, settings, memo."""
    process = script(
        """
import asyncio, concurrent.futures, os, threading
import kopf

registry = kopf.OperatorRegistry()
settings = kopf.OperatorSettings()
settings.persistence.finalizer = 'example.com/own'

class OwnMemo:
    def __init__(self, word): self.word = word
    def __copy__(self): return OwnMemo(self.word + ' copied')

@kopf.on.create('kopfexamples', registry=registry)
def create_fn(memo, patch, **_):
    patch.status['memo'] = memo.word

@kopf.on.delete('kopfexamples', registry=registry)
def delete_fn(**_):
    pass

@kopf.on.create('kopfexamples')
def foreign_fn(patch, **_):
    patch.status['foreign'] = 'of the default registry'

async def main():
    make = {
        'asyncio events': asyncio.Event,
        'asyncio futures': asyncio.get_running_loop().create_future,
        'thread events': threading.Event,
        'thread futures': concurrent.futures.Future,
    }[os.environ['FLAGS']]
    ready, stop = make(), make()

    def is_set(flag):
        return flag.is_set() if hasattr(flag, 'is_set') else flag.done()

    tasks = await kopf.spawn_tasks(
        registry=registry, settings=settings, memo=OwnMemo('mine'), standalone=True,
        namespaces=[os.environ['NAMESPACE']], ready_flag=ready, stop_flag=stop)
    assert all(isinstance(task, asyncio.Task) for task in tasks)
    running = asyncio.create_task(kopf.run_tasks(tasks))
    while not is_set(ready):
        await asyncio.sleep(0.01)
    print('Ready.', flush=True)
    while not os.path.exists('stop'):
        await asyncio.sleep(0.02)
    assert not running.done()
    stop.set() if hasattr(stop, 'set') else stop.set_result(None)
    await running
    print('Stopped.', flush=True)

kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)
asyncio.run(main())
""",
        FLAGS=flags,
    )
    process.wait_log('Ready.')
    examples.create('obj')
    body = examples.wait('obj', lambda body: body['status']['memo'])
    assert body['status'] == {'memo': 'mine copied'}
    assert body['metadata']['finalizers'] == ['example.com/own']
    (process.cwd / 'stop').touch()
    process.wait_log('Stopped.')
    assert process.wait() == 0


def test_options_of_the_runner_of_tests(script: StartScript, examples: ExampleObjects) -> None:
    """Its own registry and settings; failures leave the block as exceptions, or are logged."""
    process = script("""
import os, pathlib, time
import kopf
from kopf.testing import KopfRunner

handlers = '''
import kopf

@kopf.on.startup()
def startup_fn(settings, memo, **_):
    memo.level = settings.posting.level

@kopf.on.create('kopfexamples')
def create_fn(memo, patch, **_):
    patch.status['level'] = memo.level
'''
pathlib.Path('handlers.py').write_text(handlers)
failing = 'import kopf\\n@kopf.on.startup()\\ndef fn(**_): raise kopf.PermanentError("boo")\\n'
pathlib.Path('failing.py').write_text(failing)
options = ['-n', os.environ['NAMESPACE'], '--standalone']

registry, settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)
settings.posting.level = 77
with KopfRunner(['run', *options, 'handlers.py'], timeout=30, registry=registry,
                settings=settings) as runner:
    while not os.path.exists('stop'):
        time.sleep(0.02)
assert runner.exit_code == 0 and runner.exception is None and runner.exc_info is not None
assert 'create_fn' in runner.output and 'create_fn' in runner.stderr
assert [handler.id for handler in registry._changing.get_all_handlers()] == ['create_fn']
assert kopf.get_default_registry() is registry

try:
    with KopfRunner(['run', *options, 'failing.py'], timeout=30) as runner:
        runner.future.result(30)
except Exception as error:
    print(f'Raised: {type(error).__name__}.', flush=True)
with KopfRunner(['run', *options, 'failing.py'], timeout=30, reraise=False) as runner:
    runner.future.result(30)
assert runner.exit_code != 0 and runner.exception is not None
try:
    with KopfRunner(['run', '--unknown'], timeout=30) as runner:
        runner.future.result(30)
except SystemExit as error:
    print(f'Exit: {error.code}.', flush=True)
print('Checked.', flush=True)
""")
    examples.create('obj')
    examples.wait('obj', lambda body: body['status']['level'] == 77)
    (process.cwd / 'stop').touch()
    process.wait_log('Checked.')
    assert process.count('Raised:') == 1 and process.count('Exit: 2.') == 1, process.tail()
    assert process.wait() == 0


MANY_OPERATORS = """
import gc, logging, os, sys, threading
import kopf

logging.basicConfig(level=logging.ERROR)
OPERATORS, WARM = 200, 10

def serve():
    called = {'event_fn': threading.Event(), 'timer_fn': threading.Event(),
              'daemon_fn': threading.Event()}
    ready, stop = threading.Event(), threading.Event()
    registry, settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)

    @kopf.on.event('kopfexamples', registry=registry)
    async def event_fn(body, memo, **_):
        memo.body = dict(body)
        called['event_fn'].set()

    @kopf.timer('kopfexamples', interval=0.01, registry=registry)
    def timer_fn(**_):
        called['timer_fn'].set()

    @kopf.daemon('kopfexamples', registry=registry)
    async def daemon_fn(stopped, **_):
        called['daemon_fn'].set()
        await stopped.wait()

    thread = threading.Thread(target=kopf.run, kwargs=dict(
        registry=registry, settings=settings, namespaces=[os.environ['NAMESPACE']],
        standalone=True, ready_flag=ready, stop_flag=stop))
    thread.start()
    for flag in (ready, *called.values()):
        assert flag.wait(30)
    stop.set()
    thread.join(30)
    assert not thread.is_alive()
    settings.execution.executor.shutdown()

def measure():
    gc.collect()
    with open('/proc/self/statm') as file:
        pages = int(file.read().split()[1])
    return {
        'descriptors': len(os.listdir('/proc/self/fd')),
        'threads': len(os.listdir('/proc/self/task')),
        'fronts': sum(type(one).__name__ == 'Front' for one in gc.get_objects()),
        'kib': pages * os.sysconf('SC_PAGE_SIZE') // 1024,
    }

for number in range(OPERATORS):
    serve()
    if number + 1 in (WARM, OPERATORS):
        print(f'After {number + 1}: {measure()}', flush=True)
"""


@pytest.mark.skipif(sys.platform != 'linux', reason='It looks into /proc.')
def test_many_operators_one_after_another(script: StartScript, examples: ExampleObjects) -> None:
    """In threads of one process: nothing is left of each of them."""
    examples.create('obj')
    process = script(MANY_OPERATORS)
    assert process.wait(timeout_seconds=300) == 0, process.tail()
    [warm, final] = [
        ast.literal_eval(line.partition(': ')[2])
        for line in process.lines()
        if line.startswith('After ')
    ]
    # The threads of the last engine may still be on their way out.
    assert final['threads'] <= warm['threads'] + 2, (warm, final)
    assert final['descriptors'] <= warm['descriptors'] + 4, (warm, final)
    assert final['fronts'] <= 1, (warm, final)
    # Less than 32 KiB for each of them: what is left of the fragmentation.
    assert final['kib'] - warm['kib'] < 6 * 1024, (warm, final)


def test_the_runner_of_tests(script: StartScript, examples: ExampleObjects) -> None:
    process = script("""
import os, pathlib, sys
from kopf.testing import KopfRunner

path = pathlib.Path('handlers.py')
path.write_text('''
import kopf

@kopf.on.create('kopfexamples')
def create_fn(logger, **_):
    logger.info('Seen by the runner.')
''')
options = ['-n', os.environ['NAMESPACE'], '--standalone']
with KopfRunner(['run', *options, str(path)], timeout=30) as runner:
    while not os.path.exists('stop'):
        import time
        time.sleep(0.02)
assert runner.exit_code == 0 and runner.exception is None
assert 'Seen by the runner.' in runner.output
print('Checked.', flush=True)
""")
    examples.create('obj')
    examples.wait('obj', lambda body: 'kopf.zalando.org/last-handled-configuration'
                  in body['metadata']['annotations'])
    (process.cwd / 'stop').touch()
    process.wait_log('Checked.')
    assert process.wait() == 0

"""Operators inside of other applications: web servers, threads, other event loops, each other."""

from __future__ import annotations

import json
import pathlib
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster_client import kubeconfig, wait_for
from cluster_fixtures import ExampleObjects, Plane
from operator_process import OperatorProcess, python_under_test

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

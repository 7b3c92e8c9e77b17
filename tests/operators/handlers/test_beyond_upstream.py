"""What we do more than upstream, as seen on a cluster."""

from __future__ import annotations

import contextlib
import itertools
import json
import pathlib
import random
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.api_proxy import ApiProxy
from tests.support.client import wait_for
from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess
from tests.support.plane import Plane
from tests.support.processes import free_ports

StartOperator = Callable[..., OperatorProcess]

DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'

#: A kind that only some of these tests have.
LATE_KIND = {
    'apiVersion': 'apiextensions.k8s.io/v1',
    'kind': 'CustomResourceDefinition',
    'metadata': {'name': 'kopflates.late.kopf.test'},
    'spec': {
        'scope': 'Namespaced',
        'group': 'late.kopf.test',
        'names': {'kind': 'KopfLate', 'plural': 'kopflates', 'singular': 'kopflate'},
        'versions': [
            {
                'name': 'v1',
                'served': True,
                'storage': True,
                'schema': {
                    'openAPIV3Schema': {
                        'type': 'object',
                        'x-kubernetes-preserve-unknown-fields': True,
                    }
                },
            }
        ],
    },
}


def test_async_handler_is_cancelled_at_its_timeout(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    process = operator("""
import asyncio, kopf

@kopf.on.create('kopfexamples', timeout=0.3)
async def slow_fn(logger, **_):
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        logger.info('Cancelled.')
        raise
""")
    examples.create('obj')
    process.wait_log('Cancelled.')
    process.wait_log('Creation is processed: 0 succeeded; 1 failed.')
    assert process.stop() == 0


def test_exponential_backoff(
    operator: StartOperator, examples: ExampleObjects, tmp_path: pathlib.Path
) -> None:
    calls = tmp_path / 'calls'
    process = operator(
        """
import os, time, kopf

@kopf.on.create('kopfexamples', backoff=kopf.exponential(0.2, factor=2, max=0.8), retries=5)
def failing_fn(**_):
    with open(os.environ['CALLS'], 'a') as file:
        print(time.time(), file=file)
    raise ValueError('never')
""",
        env={'CALLS': str(calls)},
    )
    examples.create('obj')
    process.wait_log('Creation is processed: 0 succeeded; 1 failed.')
    times = [float(line) for line in calls.read_text().split()]
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(times) == 5
    assert all(
        pause >= expected for pause, expected in zip(pauses, [0.2, 0.4, 0.8, 0.8], strict=True)
    ), pauses
    assert pauses[3] < 3, pauses


def test_concurrency_limit(operator: StartOperator, examples: ExampleObjects) -> None:
    process = operator("""
import asyncio, kopf
running = 0

@kopf.on.create('kopfexamples', concurrency=2)
async def limited_fn(logger, **_):
    global running
    running += 1
    logger.info(f'Running at once: {running}.')
    await asyncio.sleep(0.1)
    running -= 1
""")
    names = [f'obj-{number}' for number in range(8)]
    for name in names:
        examples.create(name)
    process.wait_log('Creation is processed', count=len(names))
    assert process.count('Running at once: 2.') > 0
    assert process.count('Running at once: 3.') == 0
    assert process.stop() == 0


def test_result_that_the_schema_would_prune(
    operator: StartOperator, plane: Plane, namespace: str
) -> None:
    objects = ExampleObjects(plane.client, namespace, 'kopfstricts', 'KopfStrict')
    process = operator(
        """
import kopf

@kopf.on.create('kopfstricts')
def fitting_fn(**_):
    return {'phase': 'Ready', 'nodes': ['a', 'b']}

@kopf.on.create('kopfstricts')
def unfitting_fn(**_):
    return {'unknown': 'key'}
""",
        '--log-format=json',
    )
    for name in 'one', 'two':
        objects.create(name, spec={'size': 1})
    for name in 'one', 'two':
        body = objects.wait(name, lambda body: body['status'])
        assert body['status'] == {'phase': 'Ready', 'nodes': ['a', 'b']}
    process.wait_log('Creation is processed', count=2)
    warnings = [entry for entry in process.entries() if entry['severity'] == 'warn']
    assert len(warnings) == 1, warnings
    assert 'unfitting_fn' in warnings[0]['message']
    assert process.stop() == 0


@pytest.mark.parametrize(
    'plural, kind', [('kopfstatuses', 'KopfStatus'), ('kopfstricts', 'KopfStrict')]
)
def test_compact_records(
    operator: StartOperator, plane: Plane, namespace: str, plural: str, kind: str
) -> None:
    objects = ExampleObjects(plane.client, namespace, plural, kind)
    script = f"""
import os, kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.compact = os.environ['COMPACT'] == 'yes'

@kopf.on.create('{plural}')
@kopf.on.update('{plural}')
def fn(spec, patch, **_):
    patch.status['phase'] = str(spec['size'])
"""
    key = 'kopf.zalando.org/last-handled-configuration'
    # The record is where the schema keeps it, and moves when the setting is switched on and off.
    for size, compact in enumerate(['yes', 'yes', 'no', 'yes']):
        process = operator(script, env={'COMPACT': compact})
        if size == 0:
            objects.create('obj', spec={'size': size})
        else:
            objects.patch('obj', {'spec': {'size': size}})
        in_status = compact == 'yes' and plural == 'kopfstatuses'

        def is_recorded(body: Any, size: int = size, in_status: bool = in_status) -> bool:
            record = body.get('status', {}).get('kopf', {}).get('last-handled-configuration')
            other = body['metadata'].get('annotations', {}).get(key)
            if not in_status:
                record, other = other, record
            return other is None and json.loads(record)['spec'] == {'size': size}

        body = objects.wait('obj', is_recorded)
        assert body['status']['phase'] == str(size)
        assert process.count('Creation is processed') == (size == 0)
        assert process.stop() == 0


def test_condition_on_other_decorators(operator: StartOperator, examples: ExampleObjects) -> None:
    process = operator("""
import kopf

@kopf.on.condition('kopfexamples', field='spec.size')
@kopf.on.update('kopfexamples')
def above_fn(logger, **_):
    logger.info('Above.')

@kopf.on.update('kopfexamples')
@kopf.on.condition('kopfexamples', field='spec.size', new=lambda value, **_: value > 2)
def below_fn(logger, **_):
    logger.info('Below.')

@kopf.on.create('kopfexamples')
def create_fn(**_):
    pass
""")
    handled = 'kopf.zalando.org/last-handled-configuration'

    def change(spec: dict[str, int]) -> None:
        examples.patch('obj', {'spec': spec})
        examples.wait(
            'obj',
            lambda body: (
                json.loads(body['metadata']['annotations'][handled])['spec'] == body['spec']
            ),
        )

    examples.create('obj', spec={'size': 1})
    examples.wait('obj', lambda body: body['metadata']['annotations'][handled])
    change({'other': 1})
    assert process.count('Above.') == process.count('Below.') == 0
    change({'size': 2})
    assert (process.count('Above.'), process.count('Below.')) == (1, 0)
    change({'size': 3})
    assert (process.count('Above.'), process.count('Below.')) == (2, 1)
    assert process.stop() == 0


@pytest.mark.parametrize('storage', ['standard', 'own'])
@pytest.mark.parametrize('content', ['repetitive', 'random'])
def test_large_object_is_handled_and_deleted(
    operator: StartOperator, examples: ExampleObjects, content: str, storage: str
) -> None:
    """The annotations of an object are limited to 256 KiB; the stored state of a large object must
    fit in.
    """
    process = operator(
        """
import os, kopf

class OwnStorage(kopf.AnnotationsDiffBaseStorage):
    pass

@kopf.on.startup()
def configure(settings, **_):
    if os.environ['STORAGE'] == 'own':
        settings.persistence.diffbase_storage = OwnStorage()

@kopf.on.create('kopfexamples')
def create_fn(retry, **_):
    if retry == 0:
        raise kopf.TemporaryError('again', delay=0.1)
    return 'created'

@kopf.on.update('kopfexamples')
def update_fn(diff, patch, retry, **_):
    if retry == 0:
        raise kopf.TemporaryError('again', delay=0.1)
    patch.status['diff'] = [list(item) for item in diff]
    return 'updated'

@kopf.on.delete('kopfexamples')
def delete_fn(**_):
    pass
""",
        env={'STORAGE': storage},
    )
    rng = random.Random(7919)
    spec = {
        f'key-{number:04}': (
            f'{number * 7919}' * 20 if content == 'repetitive' else rng.randbytes(60).hex()
        )
        for number in range(4000)
    }
    examples.create('obj', spec=spec)
    body = examples.wait('obj', lambda body: body['status']['create_fn'] == 'created')
    handled = 'kopf.zalando.org/last-handled-configuration'
    body = examples.wait('obj', lambda body: handled in body['metadata']['annotations'])
    assert len(json.dumps(spec)) > 2**18 > len(body['metadata']['annotations'][handled])
    examples.patch('obj', {'spec': {'key-0001': 'changed'}})
    body = examples.wait('obj', lambda body: body['status']['update_fn'] == 'updated')
    # Of large values that cannot be stored at all, it is known that they have changed.
    old = spec['key-0001'] if content == 'repetitive' else body['status']['diff'][0][2]
    assert body['status']['diff'] == [['change', ['spec', 'key-0001'], old, 'changed']]
    assert process.count("Handler 'update_fn' succeeded.") == 1
    process.stop()
    process.start()
    # It is the same object after a restart, too: nothing is to be done, until it changes again.
    examples.patch('obj', {'spec': {'key-0001': 'changed again'}})
    examples.wait('obj', lambda body: body['status']['diff'][0][3] == 'changed again')
    assert process.count("Handler 'update_fn' succeeded.") == 2
    examples.delete('obj')
    examples.wait_gone('obj')
    assert process.stop() == 0


def test_stop_is_prompt(operator: StartOperator, examples: ExampleObjects) -> None:
    """Neither a handler that sleeps nor a long delay of a retry holds the exit up."""
    process = operator("""
import kopf

@kopf.on.create('kopfexamples')
async def create_fn(**_):
    raise kopf.TemporaryError('later', delay=600)
""")
    examples.create('obj')
    process.wait_log('failed temporarily: later')
    started = time.monotonic()
    assert process.stop() == 0
    assert time.monotonic() - started < 5


def test_new_crd_is_served_at_once(operator: StartOperator, plane: Plane, namespace: str) -> None:
    """The kinds that appear while the operator runs are watched; those which go are not, and come
    again.
    """
    objects = ExampleObjects(plane.client, namespace)
    objects.path = f'/apis/late.kopf.test/v1/namespaces/{namespace}/kopflates'
    process = operator("""
import kopf

@kopf.on.create('kopflates')
def create_fn(**_):
    return 'created'
""")
    try:
        for _ in range(2):
            plane.client.create(DEFINITIONS, LATE_KIND)
            wait_for('The kind is served', lambda: plane.client.get(objects.path))
            wait_for(
                'The object is accepted',
                lambda: (
                    plane.client.create(
                        objects.path,
                        {
                            'apiVersion': 'late.kopf.test/v1',
                            'kind': 'KopfLate',
                            'metadata': {'name': 'obj'},
                        },
                        exist_ok=True,
                    )
                    or True
                ),
            )
            objects.wait('obj', lambda body: body['status']['create_fn'] == 'created')
            plane.client.delete(f'{DEFINITIONS}/kopflates.late.kopf.test')
            wait_for(
                'The kind is gone',
                lambda: plane.client.find(f'{DEFINITIONS}/kopflates.late.kopf.test') is None,
            )
        assert process.stop() == 0
    finally:
        plane.client.delete(f'{DEFINITIONS}/kopflates.late.kopf.test')


def test_a_kind_is_removed_while_its_objects_are_held(
    operator: StartOperator, plane: Plane, namespace: str
) -> None:
    """The removal of the kind deletes its objects, and waits for them; so their deletion is
    handled.
    """
    objects = ExampleObjects(plane.client, namespace, kind='KopfLate')
    objects.path = f'/apis/late.kopf.test/v1/namespaces/{namespace}/kopflates'
    definition = f'{DEFINITIONS}/kopflates.late.kopf.test'
    plane.client.create(DEFINITIONS, LATE_KIND)
    try:
        wait_for('The kind is served', lambda: plane.client.get(objects.path))
        process = operator("""
import kopf

@kopf.on.delete('kopflates')
def delete_fn(name, logger, **_):
    logger.info(f'Goodbye, {name}.')
""")
        for name in 'first', 'second':
            body = {'apiVersion': 'late.kopf.test/v1', 'kind': 'KopfLate'}
            plane.client.create(objects.path, {**body, 'metadata': {'name': name}})
            objects.wait(name, lambda body: body['metadata']['finalizers'])
        plane.client.delete(definition)
        wait_for('The kind is gone', lambda: plane.client.find(definition) is None)
        for name in 'first', 'second':
            process.wait_log(f'Goodbye, {name}.')
        assert process.stop() == 0
    finally:
        plane.client.delete(definition)


def test_a_cluster_that_cannot_be_reached_is_waited_for(
    operator: StartOperator, examples: ExampleObjects, api_proxy: ApiProxy
) -> None:
    """The operator does not give up after its retries, and works as soon as there is somebody."""
    (port,) = free_ports(1)
    process = operator(
        """
import kopf, os

@kopf.on.startup()
def configure(settings, **_):
    settings.networking.error_backoffs = [0.05]

@kopf.on.login()
def login_fn(**_):
    return kopf.ConnectionInfo(server=os.environ['SERVER'], token='token')

@kopf.on.create('kopfexamples')
def create_fn(**_):
    return 'created'
""",
        env={'SERVER': f'http://127.0.0.1:{port}'},
    )
    process.wait_log('attempt #2/2 failed; escalating')
    examples.create('a')
    api_proxy.admit('Bearer token')
    with relay(port, urllib.parse.urlsplit(api_proxy.address).port or 0):
        examples.wait('a', lambda body: body['status']['create_fn'] == 'created')
        assert process.stop() == 0


@contextlib.contextmanager
def relay(port: int, target: int) -> Iterator[None]:
    """Forward each connection to the port to the target."""
    listener = socket.create_server(('127.0.0.1', port))
    sockets = [listener]

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(('127.0.0.1', target))
                sockets.extend([near, far])
                for source, sink in (near, far), (far, near):
                    threading.Thread(target=copy, args=(source, sink), daemon=True).start()

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    threading.Thread(target=accept, daemon=True).start()
    yield
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()

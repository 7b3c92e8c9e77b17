"""The operator tells the truth about its health."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.client import ApiError, Client, wait_for
from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess
from tests.support.plane import Plane

StartOperator = Callable[..., OperatorProcess]


class Endpoint:
    """The server of an operator, from outside."""

    def __init__(self) -> None:
        with socket.socket() as listener:
            listener.bind(('localhost', 0))
            self.address = f'http://localhost:{listener.getsockname()[1]}'
        self.option = f'--liveness={self.address}/healthz'

    def fetch(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.address + path, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def wait(self, code: int, path: str = '/healthz') -> Any:
        """Wait for the code, and return the content of the page."""

        def seen() -> str | None:
            answered, text = self.fetch(path)
            return text if answered == code else None

        return json.loads(
            wait_for(
                lambda: f'{code} of {path}; it is {self.fetch(path)}', seen, timeout_seconds=60
            )
        )

    def metrics(self) -> dict[str, float]:
        """All samples by their names with labels."""
        code, text = self.fetch('/metrics')
        assert code == 200
        lines = [line for line in text.splitlines() if not line.startswith('#')]
        assert all(re.fullmatch(r'[a-z_]+(\{[^{}]*\})? [0-9.e+-]+', line) for line in lines), text
        return {name: float(value) for name, value in (line.rsplit(' ', 1) for line in lines)}


@pytest.fixture()
def endpoint() -> Endpoint:
    return Endpoint()


def test_probe_handlers_and_other_pages(
    operator: StartOperator, examples: ExampleObjects, endpoint: Endpoint
) -> None:
    process = operator(
        """
import datetime, kopf

calls = 0

@kopf.index('kopfexamples')
def names(name, **_):
    return name

@kopf.on.probe()
def counted(names, **_):
    global calls
    calls += 1
    return {'calls': calls, 'names': sorted(names.get(None, ()))}
""",
        endpoint.option,
    )
    assert endpoint.wait(200, '/readyz') == {'ready': True, 'paused': False, 'reasons': []}
    examples.create('obj')
    answers = [endpoint.wait(200) for _ in range(3)]
    assert all(answer == answers[0] for answer in answers), 'remembered for some seconds'
    assert answers[0]['counted']['calls'] == 1
    assert endpoint.fetch('/elsewhere')[0] == 404
    assert process.stop() == 0


def test_metrics(operator: StartOperator, examples: ExampleObjects, endpoint: Endpoint) -> None:
    operator(
        """
import kopf

@kopf.on.create('kopfexamples')
def create_fn(retry, **_):
    if not retry:
        raise kopf.TemporaryError('not yet', delay=0.1)

@kopf.on.event('kopfexamples')
async def event_fn(**_):
    pass
""",
        endpoint.option,
    )
    examples.create('obj')
    calls = 'kopf_handler_calls_total{handler="create_fn",kind="change"}'
    wait_for('the second try', lambda: endpoint.metrics().get(calls) == 2)
    # One patch for each try; the second one, and the event of it, may still be under way.
    patches = 'kopf_api_requests_total{verb="patch",code="2xx"}'
    idle = 'kopf_queue_objects{state="idle"}'

    def quiet() -> dict[str, float] | None:
        metrics = endpoint.metrics()
        return metrics if metrics.get(patches, 0) >= 2 and metrics[idle] == 1 else None

    metrics = wait_for('the patches', quiet)
    labels = 'handler="create_fn",kind="change"'
    assert metrics[f'kopf_handler_retries_total{{{labels}}}'] == 1
    assert metrics[f'kopf_handler_failures_total{{{labels},reason="temporary"}}'] == 1
    assert metrics[f'kopf_handler_failures_total{{{labels},reason="error"}}'] == 0
    assert metrics[f'kopf_handler_duration_seconds_bucket{{{labels},le="+Inf"}}'] == 2
    assert metrics['kopf_handler_calls_total{handler="event_fn",kind="event"}'] >= 1
    assert metrics['kopf_patches_total{result="applied"}'] >= 1
    assert metrics['kopf_queue_oldest_seconds'] == 0
    [up] = [value for name, value in metrics.items() if name.startswith('kopf_stream_up{')]
    assert up == 1
    assert metrics['process_resident_memory_bytes'] > 1e6 and metrics['process_threads'] > 1
    assert metrics['process_open_fds'] > 3 and metrics['process_cpu_seconds_total'] > 0


def test_metrics_of_webhooks(
    operator: StartOperator, plane: Plane, namespace: str, endpoint: Endpoint
) -> None:
    """A refusal is no failure: it is what a webhook is there for."""
    process = operator(
        """
import os, kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.admission.server = kopf.WebhookServer()
    settings.admission.managed = os.environ['MANAGED']

@kopf.on.validate('kopfexamples', labels={'checked': 'yes'})
def check_fn(name, **_):
    if name.startswith('bad'):
        raise kopf.AdmissionError('No.')
    if name.startswith('broken'):
        raise ValueError('Oops.')
""",
        endpoint.option,
        env={'MANAGED': f'{namespace}.metrics.kopf.dev'},
    )
    path = f'/apis/kopf.dev/v1/namespaces/{namespace}/kopfexamples?dryRun=All'

    def is_refused(name: str) -> bool:
        metadata = {'name': name, 'labels': {'checked': 'yes'}}
        kind = {'apiVersion': 'kopf.dev/v1', 'kind': 'KopfExample'}
        try:
            plane.client.create(path, {**kind, 'metadata': metadata, 'spec': {}})
        except ApiError:
            return True
        return False

    wait_for('the cluster asks', lambda: is_refused('bad'))
    labels = 'handler="check_fn",kind="webhook"'
    before = endpoint.metrics()[f'kopf_handler_calls_total{{{labels}}}']
    assert not is_refused('good') and is_refused('bad') and is_refused('broken')
    metrics = endpoint.metrics()
    assert metrics[f'kopf_handler_calls_total{{{labels}}}'] == before + 3
    assert metrics[f'kopf_handler_duration_seconds_count{{{labels}}}'] == before + 3
    assert metrics[f'kopf_handler_failures_total{{{labels},reason="error"}}'] == 1
    assert metrics[f'kopf_handler_failures_total{{{labels},reason="permanent"}}'] == 0
    assert process.stop() == 0


def test_a_stuck_event_loop(
    operator: StartOperator, examples: ExampleObjects, endpoint: Endpoint, tmp_path: pathlib.Path
) -> None:
    """An async handler must not block. Here, it does so until there is a file."""
    release = tmp_path / 'release'
    operator(
        """
import os, time, kopf

@kopf.on.create('kopfexamples')
async def blocking_fn(logger, **_):
    while not os.path.exists(os.environ['RELEASE']):
        time.sleep(0.1)

@kopf.on.probe()
def fine(**_):
    return True
""",
        endpoint.option,
        env={'RELEASE': str(release)},
    )
    endpoint.wait(200, '/readyz')
    assert endpoint.wait(200) == {'fine': True}
    examples.create('obj')
    wait_for('the problem', lambda: 'event loop is stuck' in endpoint.wait(503)['problems'][0])
    assert not endpoint.wait(503, '/readyz')['ready']
    release.touch()
    assert endpoint.wait(200) == {'fine': True}


class Forwarder:
    """A way to the API server which can be blocked: as a network that swallows everything."""

    def __init__(self, client: Client) -> None:
        host, port = client.server.removeprefix('https://').rsplit(':', 1)
        self.target = (host, int(port))
        self.open = threading.Event()
        self.open.set()
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.sockets: list[socket.socket] = []
        self.client = Client(
            f'https://127.0.0.1:{self.listener.getsockname()[1]}', client.token, client.ca
        )
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.target)
            except OSError:
                return
            self.sockets += [near, far]
            for source, target in (near, far), (far, near):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self.open.wait()
                target.sendall(data)
        except OSError:
            pass
        for one in source, target:
            one.close()

    def close(self) -> None:
        self.open.set()
        for one in self.listener, *self.sockets:
            one.close()


@pytest.fixture()
def forwarder(plane: Plane) -> Iterator[Forwarder]:
    forwarder = Forwarder(plane.client)
    yield forwarder
    forwarder.close()


def test_an_api_that_does_not_answer(
    operator: StartOperator, endpoint: Endpoint, forwarder: Forwarder
) -> None:
    operator(
        "import kopf\n\n@kopf.on.event('kopfexamples')\ndef event_fn(**_):\n    pass\n",
        endpoint.option,
        client=forwarder.client,
    )
    endpoint.wait(200, '/readyz')
    assert endpoint.wait(200) == {}
    forwarder.open.clear()
    silent_since = time.monotonic()
    assert 'Kubernetes API does not answer' in endpoint.wait(503, '/readyz')['reasons'][0]
    # The prober asks every 3 seconds, and waits for 10; the rest is for busy machines.
    assert time.monotonic() - silent_since < 30
    # A restart would not bring the API back.
    assert endpoint.fetch('/healthz') == (200, '{}')
    forwarder.open.set()
    assert endpoint.wait(200, '/readyz')['ready']
    assert endpoint.fetch('/healthz') == (200, '{}')


def test_silent_connections_keep_nobody_out(operator: StartOperator, endpoint: Endpoint) -> None:
    operator(
        "import kopf\n\n@kopf.on.event('kopfexamples')\ndef event_fn(**_):\n    pass\n",
        endpoint.option,
    )
    endpoint.wait(200, '/readyz')
    host, port = endpoint.address.removeprefix('http://').rsplit(':', 1)
    silent = [socket.create_connection((host, int(port))) for _ in range(64)]
    try:
        assert endpoint.fetch('/healthz') == (200, '{}')
        # The server closes all of them soon.
        for one in silent:
            one.settimeout(20)
            with contextlib.suppress(ConnectionError):
                assert one.recv(1) == b''
    finally:
        for one in silent:
            one.close()


@pytest.mark.parametrize(
    'url, message',
    [
        ('https://localhost:0/', 'unsupported scheme'),
        ('http://localhost:{port}/', 'cannot listen on localhost'),
    ],
)
def test_wrong_endpoints(operator: StartOperator, url: str, message: str) -> None:
    with socket.create_server(('localhost', 0)) as taken:
        option = f'--liveness={url.format(port=taken.getsockname()[1])}'
        process = operator('import kopf', option)
        assert process.wait() == 1
    assert message in process.text()

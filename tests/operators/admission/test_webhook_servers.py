"""The servers of webhooks: ours, those of users, and clients of all sorts."""

from __future__ import annotations

import base64
import http.client
import json
import pathlib
import socket
import ssl
import urllib.parse
from collections.abc import Callable
from typing import Any

import pytest

from tests.operators.admission.managed_webhooks import HEADER, Webhooks, refused
from tests.support.client import wait_for
from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess
from tests.support.pki import make_certificate, make_pki

StartOperator = Callable[..., OperatorProcess]


def test_servers_of_users(webhooks: Webhooks, examples: ExampleObjects) -> None:
    """An async generator around our own server, with its own way to call the function."""
    header = """
import os, kopf
LABELS = {'admitted-by': os.environ['MANAGED']}

async def tunnel(fn):
    async def through(request, **kwargs):
        assert kwargs['headers']['Content-Type'] == 'application/json', kwargs
        response = await fn(request, webhook=kwargs['webhook'], headers={'X-Custom': 'yes'})
        response['response'].setdefault('warnings', []).append('through the tunnel')
        return response
    server = kopf.WebhookServer(addr='localhost')
    async for client_config in server(through):
        yield client_config

@kopf.on.startup()
def configure(settings, **_):
    settings.admission.server = tunnel
    settings.admission.managed = os.environ['MANAGED']
"""
    process = webhooks.start("""
@kopf.on.validate('kopfexamples', labels=LABELS)
def check(headers, sslpeer, logger, **_):
    logger.info(f'{headers} {sslpeer}')
    raise kopf.AdmissionError('No.', code=418)
""", header=header)
    webhooks.wait_asked('check')
    metadata = {'labels': webhooks.labels}
    assert refused(lambda: examples.create('obj', metadata=metadata))[0] == 418
    process.wait_log("{'X-Custom': 'yes'} {}")
    assert process.stop() == 0
    assert webhooks.configured() == []


def test_no_server(operator: StartOperator) -> None:
    process = operator("""
import kopf

@kopf.on.validate('kopfexamples')
def check(**_):
    pass
""")
    assert process.wait() != 0
    assert process.count('no admission server/tunnel is configured') > 0


def test_port_that_is_taken(operator: StartOperator) -> None:
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        process = operator(f"""
import kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.admission.server = kopf.WebhookServer(addr='127.0.0.1', port={port})

@kopf.on.validate('kopfexamples')
def check(**_):
    pass
""")
        assert process.wait() != 0
    assert process.count(f'cannot listen for webhooks on 127.0.0.1:{port}') > 0


@pytest.mark.parametrize(
    'server, host',
    [
        ('WebhookK3dServer', 'host.k3d.internal'),
        ('WebhookMinikubeServer', 'host.minikube.internal'),
        ('WebhookDockerDesktopServer', 'host.docker.internal'),
        ('WebhookAutoServer', 'localhost'),
    ],
)
def test_servers_for_local_clusters(webhooks: Webhooks, server: str, host: str) -> None:
    """The cluster reaches this machine under another name, for which the certificate is made."""
    process = webhooks.start(
        """
@kopf.on.validate('kopfexamples', labels=LABELS)
def check(**_):
    pass
""",
        header=HEADER.replace('kopf.WebhookServer()', f'kopf.{server}()'),
    )
    client_config = webhooks.wait()[0]['clientConfig']
    address = urllib.parse.urlsplit(client_config['url'])
    assert (address.scheme, address.hostname, address.path) == ('https', host, '/check')
    authority = base64.b64decode(client_config['caBundle']).decode()
    context = ssl.create_default_context(cadata=authority)
    with (
        socket.create_connection(('localhost', address.port), timeout=30) as raw,
        context.wrap_socket(raw, server_hostname=host) as connection,
    ):
        assert connection.getpeercert()
    assert process.stop() == 0


def test_ngrok_is_not_installed(operator: StartOperator) -> None:
    process = operator("""
import kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.admission.server = kopf.WebhookNgrokTunnel()

@kopf.on.validate('kopfexamples')
def check(**_):
    pass
""")
    assert process.wait() != 0
    assert process.count('pip install pyngrok') > 0


class Direct:
    """Requests to the server of an operator without a cluster in between."""

    def __init__(self, process: OperatorProcess, folder: pathlib.Path) -> None:
        self.authority = folder / 'ca.pem'
        self.process = process
        wait_for('the address', lambda: self.authority.exists())
        process.wait_log('Accessing the webhooks at https://localhost:')
        line = next(line for line in process.lines() if 'Accessing the webhooks at ' in line)
        self.port = int(line.rsplit(':', 1)[1])
        self.context = ssl.create_default_context(cafile=str(self.authority))

    def request(self, method: str, path: str, body: Any, **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPSConnection(
            'localhost', self.port, context=self.context, timeout=30
        )
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        answer = response.status, response.read().decode()
        connection.close()
        return answer


@pytest.fixture()
def direct(operator: StartOperator, tmp_path: pathlib.Path) -> Direct:
    process = operator(
        f"""
import kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.admission.server = kopf.WebhookServer(cadump={str(tmp_path / 'ca.pem')!r})

@kopf.on.validate('kopfexamples')
def check(spec, **_):
    if 'bad' in spec:
        raise kopf.AdmissionError('Bad.', code=418)
""",
        '--debug',
    )
    return Direct(process, tmp_path)


def review(**request: Any) -> dict[str, Any]:
    return {
        'apiVersion': 'admission.k8s.io/v1',
        'kind': 'AdmissionReview',
        'request': {
            'uid': 'u1',
            'resource': {'group': 'kopf.dev', 'version': 'v1', 'resource': 'kopfexamples'},
            'operation': 'CREATE',
            'userInfo': {'username': 'me', 'uid': 'x', 'groups': []},
            'object': {'metadata': {'name': 'x'}, 'spec': {}},
            **request,
        },
    }


def test_bad_requests(direct: Direct) -> None:
    good = json.dumps(review())
    unknown = {'group': 'x', 'version': 'v1', 'resource': 'y'}
    table: list[tuple[int, str, str, Any, dict[str, str]]] = [
        (200, 'POST', '/check', good, {}),
        (200, 'POST', '/', good, {}),
        (200, 'POST', '/unknown', good, {}),
        (405, 'GET', '/check', None, {}),
        (400, 'POST', '/check', b'\x00\xff garbage', {}),
        (400, 'POST', '/check', b'', {}),
        (400, 'POST', '/check', b'[' * 100_000, {}),
        (400, 'POST', '/check', b'null', {}),
        (400, 'POST', '/check', json.dumps(review(userInfo=None)), {}),
        (400, 'POST', '/check', json.dumps(review(object=None)), {}),
        (404, 'POST', '/check', json.dumps(review(resource=unknown)), {}),
        (415, 'POST', '/check', good, {'Content-Type': 'text/plain'}),
        (200, 'POST', '/check', good, {'Content-Type': 'application/json; charset=utf-8'}),
    ]
    for expected, method, path, body, headers in table:
        status, text = direct.request(method, path, body, **headers)
        assert status == expected, (method, path, body, status, text)
    answer = direct.request('POST', '/', json.dumps(review(object={'spec': {'bad': 1}})))
    response = json.loads(answer[1])['response']
    assert response['allowed'] is False
    assert response['status'] == {'message': 'Bad.', 'code': 418}
    assert direct.process.is_running()


def test_clients_are_known_by_their_certificates(
    operator: StartOperator, tmp_path: pathlib.Path
) -> None:
    pki = tmp_path / 'pki'
    make_pki(pki)
    make_certificate(pki, 'client', subject='/O=system:masters/CN=apiserver', extensions='client')
    process = operator(
        f"""
import json, kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.admission.server = kopf.WebhookServer(
        cadump={str(tmp_path / 'ca.pem')!r}, verify_cafile={str(pki / 'ca.crt')!r})

@kopf.on.validate('kopfexamples')
def check(sslpeer, headers, warnings, **_):
    warnings.append(json.dumps([sslpeer, headers]))
""",
        '--debug',
    )
    direct = Direct(process, tmp_path)

    def seen() -> tuple[dict[str, Any], dict[str, str]]:
        status, text = direct.request('POST', '/', json.dumps(review()), Custom='x')
        assert status == 200
        sslpeer, headers = json.loads(json.loads(text)['response']['warnings'][0])
        return sslpeer, headers

    sslpeer, headers = seen()
    assert not sslpeer and headers['Custom'] == 'x'
    direct.context.load_cert_chain(pki / 'client.crt', pki / 'client.key')
    sslpeer, _ = seen()
    # As Python's `ssl` tells it.
    decoded = ssl._ssl._test_decode_cert(str(pki / 'client.crt'))  # type: ignore[attr-defined]
    assert sslpeer == json.loads(json.dumps(decoded))
    assert process.stop() == 0


def test_bodies_that_are_too_large(direct: Direct) -> None:
    request = b'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n'
    with (
        socket.create_connection(('localhost', direct.port), timeout=30) as raw,
        direct.context.wrap_socket(raw, server_hostname='localhost') as connection,
    ):
        connection.sendall(request)
        assert connection.recv(100).startswith(b'HTTP/1.1 413 ')


def test_clients_without_tls_or_sense(direct: Direct) -> None:
    """They get nowhere, and they do not block others."""
    idle = [socket.create_connection(('localhost', direct.port), timeout=30) for _ in range(50)]
    with socket.create_connection(('localhost', direct.port), timeout=30) as raw:
        raw.sendall(b'GET / HTTP/1.1\r\n\r\n')
        assert not raw.recv(1000).startswith(b'HTTP')
    assert direct.request('POST', '/', json.dumps(review()))[0] == 200
    for connection in idle:
        connection.close()

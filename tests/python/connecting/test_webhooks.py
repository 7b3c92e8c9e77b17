"""Servers of webhooks without an operator: what Python's own TLS serves, and what is guessed."""
from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import ssl
from collections.abc import Callable
from typing import Any

import pytest

import kopf
from kopf._webhooks import servers
from kopf._webhooks.reviews import UnknownResourceError, WebhookError


async def echo(request: Any, **kwargs: Any) -> Any:
    if request == 'unknown':
        raise UnknownResourceError('no such resource')
    if request == 'bad':
        raise WebhookError('a bad one')
    if request == 'failing':
        raise RuntimeError('a secret')
    return {'request': request, 'webhook': kwargs['webhook'], 'peer': kwargs['sslpeer'],
            'type': kwargs['headers'].get('Content-Type')}


def serve(server: kopf.WebhookServer, talk: Callable[[Any, Any], Any]) -> None:
    """Run the server, and talk to it from a thread: over a connection, and with its address."""
    def connect_and_talk(config: Any) -> None:
        with contextlib.closing(connect(config)) as connection:
            talk(connection, config)

    async def run() -> None:
        generator: Any = server(echo)
        config = await generator.__anext__()
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, connect_and_talk, config)
        finally:
            await generator.aclose()

    asyncio.run(asyncio.wait_for(run(), 60))


def connect(config: Any) -> http.client.HTTPConnection:
    port = config['url'].rsplit(':', 1)[1].split('/')[0]
    if config['url'].startswith('http://'):
        return http.client.HTTPConnection('localhost', int(port), timeout=20)
    authority = base64.b64decode(config['caBundle']).decode()
    context = ssl.create_default_context(cadata=authority)
    return http.client.HTTPSConnection('localhost', int(port), context=context, timeout=20)


def post(connection: http.client.HTTPConnection, path: str, body: Any, **headers: str) -> Any:
    connection.request('POST', path, body, headers)
    response = connection.getresponse()
    return response.status, response.read().decode()


def test_requests_and_answers() -> None:
    def talk(connection: Any, config: Any) -> None:
        for webhook in 'fn', 'fn/spec.field':  # over one connection
            status, text = post(connection, f'/base/{webhook}', '{"a": 1}',
                                **{'Content-Type': 'application/json'})
            assert status == 200
            assert json.loads(text) == {
                'request': {'a': 1}, 'webhook': webhook, 'peer': None, 'type': 'application/json'}
        status, text = post(connection, '/base/outer.%3Clocals%3E.fn', iter([b'{"b"', b': 2}']))
        assert json.loads(text)['webhook'] == 'outer.<locals>.fn'
        assert json.loads(text)['request'] == {'b': 2}

    serve(kopf.WebhookServer(path='/base', extra_sans=['localhost']), talk)


@pytest.mark.parametrize('path, body, status', [
    ('/fn', b'garbage', 400),
    ('/fn', b'', 400),
    ('/fn', b'[' * 100_000, 400),
    ('/fn', b'"bad"', 400),
    ('/fn', b'"unknown"', 404),
    ('/fn', b'"failing"', 500),
])
def test_bad_requests(path: str, body: bytes, status: int) -> None:
    def talk(connection: Any, config: Any) -> None:
        answer = post(connection, path, body)
        assert answer[0] == status
        assert 'secret' not in answer[1]

    serve(kopf.WebhookServer(addr='127.0.0.1', insecure=True), talk)


@pytest.mark.parametrize('text, answer', [
    (b'GET /base/fn HTTP/1.1\r\n\r\n', b'HTTP/1.1 405 '),
    (b'POST /other HTTP/1.1\r\nContent-Length: 0\r\n\r\n', b'HTTP/1.1 404 '),
    (b'nonsense\r\n\r\n', b'HTTP/1.1 400 '),
    (b'POST /base/fn HTTP/1.1\r\nno colon\r\n\r\n', b'HTTP/1.1 400 '),
    (b'POST /base/fn HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n', b'HTTP/1.1 413 '),
    (b'POST /base/fn HTTP/1.1\r\nContent-Length: -1\r\n\r\n', b'HTTP/1.1 400 '),
    (b'POST /base/fn HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n', b'HTTP/1.1 400 '),
    (b'POST /base/fn HTTP/1.1\r\nX: ' + b'x' * 100_000, b'HTTP/1.1 431 '),
])
def test_bad_protocol(text: bytes, answer: bytes) -> None:
    def talk(connection: Any, config: Any) -> None:
        connection.connect()
        connection.sock.sendall(text)
        assert connection.sock.recv(1000).startswith(answer)

    serve(kopf.WebhookServer(addr='127.0.0.1', path='/base', insecure=True), talk)


def test_insecure_servers_have_no_context() -> None:
    server = kopf.WebhookServer(insecure=True, context=ssl.create_default_context())
    with pytest.raises(ValueError, match='insecure'):
        serve(server, lambda connection, config: None)


def test_own_context(tmp_path: Any) -> None:
    certificate, key = kopf.WebhookServer.build_certificate(['localhost', '127.0.0.1'])
    (tmp_path / 'cert.pem').write_bytes(certificate)
    (tmp_path / 'key.pem').write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / 'cert.pem', tmp_path / 'key.pem')

    def talk(connection: Any, config: Any) -> None:
        assert base64.b64decode(config['caBundle']) == certificate
        assert post(connection, '/fn', '{}')[0] == 200

    server = kopf.WebhookServer(
        addr='127.0.0.1', host='localhost', context=context, cadata=certificate)
    assert not server._suits_engine()
    serve(server, talk)


def test_certificates_are_made_without_other_packages() -> None:
    certificate, key = kopf.WebhookServer.build_certificate(['example.com', '10.0.0.1', '::1'])
    assert certificate.startswith(b'-----BEGIN CERTIFICATE-----')
    assert key.startswith(b'-----BEGIN PRIVATE KEY-----')
    from kopf import _native
    described = json.loads(_native.describe_certificate(
        ssl.PEM_cert_to_DER_cert(certificate.decode())))
    assert described['subjectAltName'] == [
        ['DNS', 'example.com'], ['IP Address', '10.0.0.1'], ['IP Address', '::1']]
    with pytest.raises(ValueError, match='cannot be encrypted'):
        kopf.WebhookServer.build_certificate(['x'], password='secret')


@pytest.mark.parametrize('certificate, host', [
    ({'subject': [[['commonName', 'k3s']]]}, 'host.k3d.internal'),
    ({'subject': [[['organizationName', 'k3s']]]}, 'host.k3d.internal'),
    ({'issuer': [[['commonName', 'k3s-server-ca@1']]]}, 'host.k3d.internal'),
    ({'subject': [[['commonName', 'minikube']]]}, 'host.minikube.internal'),
    ({'issuer': [[['commonName', 'minikubeCA']]]}, 'host.minikube.internal'),
    ({'subjectAltName': [['DNS', 'docker-for-desktop']]}, 'host.docker.internal'),
    ({'subject': [[['commonName', 'kube-apiserver']]]}, None),
    ({}, None),
])
def test_clusters_are_recognised(certificate: Any, host: str | None) -> None:
    assert servers._recognise_cluster(certificate) == host


@pytest.mark.parametrize('addr, expected', [
    (None, 'localhost'), ('', 'localhost'), ('0.0.0.0', '127.0.0.1'), ('::', '::1'),
    ('10.1.2.3', '10.1.2.3'), ('host', 'host'),
])
def test_accessible_addresses(addr: str | None, expected: str) -> None:
    assert kopf.WebhookServer._get_accessible_addr(addr) == expected


@pytest.mark.parametrize('args, expected', [
    (('https', 'localhost', 9443, ''), 'https://localhost:9443'),
    (('https', 'localhost', 443, '/x'), 'https://localhost/x'),
    (('http', '::1', 80, ''), 'http://[::1]'),
])
def test_urls(args: Any, expected: str) -> None:
    assert kopf.WebhookServer._build_url(*args) == expected

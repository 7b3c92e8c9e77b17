"""Webhooks as users write them: a cluster asks our operators before it makes changes."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import pathlib
import socket
import ssl
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster_client import ApiError, wait_for
from cluster_fixtures import ExampleObjects, Plane
from controlplane import make_client_certificate, make_pki
from operator_process import OperatorProcess

StartOperator = Callable[..., OperatorProcess]

CONFIGURATIONS = '/apis/admissionregistration.k8s.io/v1'

#: Only the objects of the test are asked about, as other tests run on the same cluster.
HEADER = """
import os, kopf
LABELS = {'admitted-by': os.environ['MANAGED']}

@kopf.on.startup()
def configure(settings, **_):
    settings.admission.server = kopf.WebhookServer()
    settings.admission.managed = os.environ['MANAGED']
"""


class Webhooks:
    """The managed configurations of one test."""

    def __init__(self, plane: Plane, namespace: str, start: StartOperator) -> None:
        self.client = plane.client
        self.name = f'{namespace}.kopf.dev'
        self.labels = {'admitted-by': self.name}
        self.path = f'/apis/kopf.dev/v1/namespaces/{namespace}/kopfexamples'
        self.process: OperatorProcess | None = None
        self._start = start
        self._probes = 0

    def start(self, script: str, *options: str, header: str = HEADER) -> OperatorProcess:
        self.process = self._start(header + script, *options, env={'MANAGED': self.name})
        return self.process

    def configured(self, webhook_type: str = 'validating') -> list[Any] | None:
        path = f'{CONFIGURATIONS}/{webhook_type}webhookconfigurations/{self.name}'
        found = self.client.find(path)
        return None if found is None else found.get('webhooks', [])

    def wait_asked(self, handler: str, webhook_type: str = 'validating', count: int = 1) -> None:
        """A real cluster takes a moment until it asks: shown by creations that are not stored."""

        def asked() -> bool:
            self._probes += 1
            name = f'probe-{self._probes}'
            body = {'apiVersion': 'kopf.dev/v1', 'kind': 'KopfExample', 'spec': {},
                    'metadata': {'name': name, 'labels': self.labels}}
            with contextlib.suppress(ApiError):
                self.client.create(f'{self.path}?dryRun=All', body)
            assert self.process is not None
            return self.process.count(f'/{name}]', f"Webhook '{handler}'") > 0

        self.wait(webhook_type, count)
        wait_for(f'the cluster asks {handler}', asked)

    def wait(self, webhook_type: str = 'validating', count: int = 1) -> list[Any]:
        def seen() -> Any:
            webhooks = self.configured(webhook_type)
            return webhooks if webhooks is not None and len(webhooks) == count else None

        if count == 0:
            wait_for('the webhooks are gone', lambda: self.configured(webhook_type) == [])
            return []
        return wait_for(lambda: f'{count} webhooks: {self.configured(webhook_type)}', seen)

    def remove(self) -> None:
        for webhook_type in 'validating', 'mutating':
            self.client.delete(f'{CONFIGURATIONS}/{webhook_type}webhookconfigurations/{self.name}')


@pytest.fixture()
def webhooks(plane: Plane, namespace: str, operator: StartOperator) -> Iterator[Webhooks]:
    webhooks = Webhooks(plane, namespace, operator)
    yield webhooks
    webhooks.remove()


def refused(action: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        action()
    return caught.value.status, json.loads(caught.value.text)['message']


def test_validation(webhooks: Webhooks, examples: ExampleObjects) -> None:
    process = webhooks.start("""
@kopf.on.validate('kopfexamples', labels=LABELS)
def check_it(spec, operation, dryrun, userinfo, logger, **_):
    logger.info(f'{operation} by {bool(userinfo["username"])}, dryrun={dryrun}.')
    if spec.get('size', 0) > 5:
        raise kopf.AdmissionError('Too big.', code=400)
    if spec.get('size', 0) < 0:
        raise kopf.PermanentError('Negative.')
    if 'broken' in spec:
        raise ValueError('Broken.')
""")
    metadata = {'labels': webhooks.labels}
    webhooks.wait_asked('check_it')
    examples.create('good', spec={'size': 1}, metadata=metadata)
    process.wait_log('CREATE by True, dryrun=False.')
    prefix = f'admission webhook "check-it.{webhooks.name}" denied the request: '
    table = [({'size': 6}, 400, 'Too big.'), ({'size': -1}, 500, 'Negative.'),
             ({'broken': 1}, 500, 'Broken.')]
    for spec, code, message in table:
        answer = refused(lambda spec=spec: examples.create('bad', spec=spec, metadata=metadata))
        assert answer == (code, prefix + message)
    assert refused(lambda: examples.patch('good', {'spec': {'size': 7}}))[0] == 400
    examples.create('foreign', spec={'size': 6})
    assert process.stop() == 0
    assert webhooks.configured() == []
    examples.patch('good', {'spec': {'size': 7}})


def test_mutation_and_warnings(webhooks: Webhooks, examples: ExampleObjects) -> None:
    process = webhooks.start("""
@kopf.on.mutate('kopfexamples', labels=LABELS)
def complete(spec, patch, warnings, old, new, diff, **_):
    patch.spec['size'] = spec.get('size', 1) + 1
    patch.metadata.annotations['kopf.dev/note'] = 'mutated'
    patch.spec['drop'] = None
    warnings.append('You have been warned.')

@kopf.on.mutate('kopfexamples', labels=LABELS, operations=['CREATE'])
async def transform(patch, **_):
    @patch.fns.append
    def extend(body):
        body['spec'].setdefault('items', []).append('x')
""")
    webhooks.wait_asked('complete', 'mutating', 2)
    metadata = {'labels': webhooks.labels}
    body = examples.create('obj', spec={'drop': 1, 'items': ['a']}, metadata=metadata)
    assert body['spec'] == {'size': 2, 'items': ['a', 'x']}
    assert body['metadata']['annotations']['kopf.dev/note'] == 'mutated'
    body = examples.patch('obj', {'spec': {'more': 1}})
    assert body['spec'] == {'size': 3, 'items': ['a', 'x'], 'more': 1}
    assert process.stop() == 0
    assert webhooks.configured('mutating') == []


def test_the_configuration(webhooks: Webhooks) -> None:
    webhooks.start("""
@kopf.on.validate('kopfexamples', labels=LABELS, operations=['UPDATE', 'DELETE'],
                  subresource='status', side_effects=True, ignore_failures=True, persistent=True)
def stays(**_):
    pass

@kopf.on.validate('kopfexamples', labels=LABELS, id='Some/Odd_id', field='spec.x')
def goes(**_):
    pass
""")
    first, second = webhooks.wait(count=2)
    assert first['name'] == f'stays.{webhooks.name}'
    assert first['sideEffects'] == 'NoneOnDryRun'
    assert first['failurePolicy'] == 'Ignore'
    assert first['rules'][0]['resources'] == ['kopfexamples/status']
    assert first['rules'][0]['operations'] == ['UPDATE', 'DELETE']
    assert first['rules'][0]['apiGroups'] == ['kopf.dev']
    assert first['timeoutSeconds'] == 30
    assert first['clientConfig']['url'].startswith('https://localhost:')
    assert first['clientConfig']['url'].endswith('/stays')
    assert second['name'] == f'some.odd-id.spec.x.{webhooks.name}'
    assert second['clientConfig']['url'].endswith('/Some/Odd_id/spec.x')
    assert second['failurePolicy'] == 'Fail'
    expression = {'key': 'admitted-by', 'operator': 'In', 'values': [webhooks.name]}
    assert second['objectSelector'] == {'matchExpressions': [expression]}


def test_persistent_webhooks_stay(webhooks: Webhooks, examples: ExampleObjects) -> None:
    process = webhooks.start("""
@kopf.on.validate('kopfexamples', labels=LABELS, persistent=True)
def stays(**_):
    pass

@kopf.on.validate('kopfexamples', labels=LABELS)
def goes(**_):
    pass
""")
    webhooks.wait_asked('stays', count=2)
    assert process.stop() == 0
    assert [webhook['name'] for webhook in webhooks.configured() or []] == [
        f'stays.{webhooks.name}'
    ]
    metadata = {'labels': webhooks.labels}
    assert refused(lambda: examples.create('obj', metadata=metadata))[0] == 500


def test_killed_and_started_again(webhooks: Webhooks, examples: ExampleObjects) -> None:
    process = webhooks.start("""
@kopf.on.validate('kopfexamples', labels=LABELS)
def check(**_):
    pass
""")
    webhooks.wait_asked('check')
    before = webhooks.wait()
    process.kill()
    metadata = {'labels': webhooks.labels}
    assert refused(lambda: examples.create('obj', metadata=metadata))[0] == 500
    process.start()
    wait_for('a new address', lambda: webhooks.configured() not in (None, [], before))
    webhooks.wait_asked('check')
    examples.create('obj', metadata=metadata)
    assert process.stop() == 0
    assert webhooks.configured() == []


def test_a_paused_operator_answers(
    plane: Plane, namespace: str, webhooks: Webhooks, examples: ExampleObjects
) -> None:
    peerings = f'/apis/kopf.dev/v1/namespaces/{namespace}/kopfpeerings'
    plane.client.create(
        peerings,
        {
            'apiVersion': 'kopf.dev/v1',
            'kind': 'KopfPeering',
            'metadata': {'name': 'team'},
            'status': {
                'boss': {'priority': 100, 'lifetime': 600, 'lastseen': '2100-01-01T00:00:00Z'}
            },
        },
    )
    process = webhooks.start(
        """
@kopf.on.validate('kopfexamples', labels=LABELS)
def check_it(spec, **_):
    if spec.get('size', 0) > 5:
        raise kopf.AdmissionError('Too big.', code=400)

@kopf.on.create('kopfexamples')
def create_fn(**_):
    return 'created'
""",
        '--peering=team',
    )
    process.wait_log('Pausing operations in favour of')
    webhooks.wait_asked('check_it')
    metadata = {'labels': webhooks.labels}
    assert refused(lambda: examples.create('bad', spec={'size': 6}, metadata=metadata))[0] == 400
    examples.create('good', metadata=metadata)
    assert process.count("Handler 'create_fn'") == 0
    plane.client.patch(f'{peerings}/team', {'status': {'boss': None}})
    examples.wait('good', lambda body: body['status']['create_fn'] == 'created')
    assert process.stop() == 0
    assert webhooks.configured() == []


def test_started_again_without_webhooks(webhooks: Webhooks, examples: ExampleObjects) -> None:
    process = webhooks.start("""
@kopf.on.validate('kopfexamples', labels=LABELS)
def check(**_):
    pass
""")
    webhooks.wait()
    process.kill()
    webhooks.start("""
@kopf.on.create('kopfexamples')
def create(**_):
    pass
""")
    webhooks.wait(count=0)
    wait_for(
        'nobody is asked',
        lambda: examples.create('obj', metadata={'labels': webhooks.labels}),
    )


def test_another_operator_has_taken_over(webhooks: Webhooks) -> None:
    script = """
@kopf.on.validate('kopfexamples', labels=LABELS)
def check(**_):
    pass
"""
    first = webhooks.start(script)
    before = webhooks.wait()
    webhooks.start(script)
    wait_for('the other address', lambda: webhooks.configured() not in (None, [], before))
    assert first.stop() == 0
    assert len(webhooks.configured() or []) == 1


def test_memos_and_indices_of_the_process(webhooks: Webhooks, examples: ExampleObjects) -> None:
    process = webhooks.start("""
@kopf.on.create('kopfexamples')
def create(memo, **_):
    memo.seen = 'by the creation'

@kopf.on.validate('kopfexamples', labels=LABELS, operations=['CREATE', 'UPDATE'])
def check(memo, spec, old, logger, **_):
    if old is not None and old['spec'] != spec:
        logger.info(f'Seen {memo.get("seen")}.')
""")
    webhooks.wait_asked('check')
    examples.create('obj', metadata={'labels': webhooks.labels})
    process.wait_log('Creation is processed: 1 succeeded')
    examples.patch('obj', {'spec': {'x': 1}})
    process.wait_log('Seen by the creation.')


def test_filters_and_callbacks(webhooks: Webhooks, examples: ExampleObjects) -> None:
    process = webhooks.start("""
def note(text):
    def fn(warnings, **_):
        warnings.append(text)
    return fn

kopf.on.validate('kopfexamples', labels=LABELS, id='field', field='spec.x', value=5)(note('field'))
def is_wanted(spec, operation, **_):
    return spec.get('x') == 5 and operation == 'CREATE'

kopf.on.validate('kopfexamples', labels=LABELS, id='when', when=is_wanted)(note('when'))
kopf.on.validate('kopfexamples', labels=LABELS, id='annotation',
                 annotations={'a': lambda value, **_: value in (None, 'b')})(note('annotation'))

@kopf.on.mutate('kopfexamples', labels=LABELS, id='collect')
def collect(patch, **_):
    patch.spec['asked'] = True
""")
    webhooks.wait(count=3)
    webhooks.wait_asked('collect', 'mutating')
    webhooks.wait_asked('annotation', count=3)
    base = {'labels': webhooks.labels}
    path = examples.path
    connection = examples.client
    for number, (metadata, spec, expected) in enumerate([
        ({**base, 'annotations': {'a': 'c'}}, {'x': 5}, ['field', 'when']),
        ({**base, 'annotations': {'a': 'c'}}, {'x': 4}, []),
        ({**base, 'annotations': {'a': 'b'}}, {}, ['annotation']),
    ]):
        body = {'apiVersion': 'kopf.dev/v1', 'kind': 'KopfExample',
                'metadata': {'name': f'obj-{number}', **metadata}, 'spec': spec}
        assert sorted(warnings_of(connection, path, body)) == expected
    assert process.stop() == 0


def warnings_of(client: Any, path: str, body: Any) -> list[str]:
    """The warnings come in headers, which the client of the tests does not show."""
    address = urllib.parse.urlsplit(client.server)
    context = ssl.create_default_context(cafile=str(client.ca))
    connection = http.client.HTTPSConnection(
        address.hostname or '', address.port, context=context, timeout=30
    )
    headers = {'Authorization': f'Bearer {client.token}', 'Content-Type': 'application/json'}
    connection.request('POST', path, json.dumps(body), headers)
    response = connection.getresponse()
    response.read()
    assert response.status == 201
    warnings = response.headers.get_all('Warning') or []
    connection.close()
    return [text.split('"')[1] for text in warnings]


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
    make_client_certificate(pki, '/O=system:masters/CN=apiserver', 'client')
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

"""Logging in, and staying logged in: tokens end, files change, plugins renew, proxies are used."""

from __future__ import annotations

import json
import os
import pathlib
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.api_proxy import ApiProxy, ConnectProxy
from tests.support.client import kubeconfig, kubeconfig_of, wait_for
from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess
from tests.support.pki import make_pki
from tests.support.plane import Plane

StartOperator = Callable[..., OperatorProcess]

HANDLERS = """
import kopf

@kopf.on.create('kopfexamples')
def create_fn(logger, **_):
    logger.info('Created.')
"""


@pytest.fixture()
def proxy() -> Iterator[ConnectProxy]:
    proxy = ConnectProxy()
    yield proxy
    proxy.close()


def config_for(folder: pathlib.Path, cluster: dict[str, Any], user: dict[str, Any]) -> str:
    path = folder / 'own-kubeconfig'
    path.write_text(kubeconfig_of(cluster, user))
    return str(path)


def test_refused_credentials_lead_to_a_new_login(
    operator: StartOperator,
    examples: ExampleObjects,
    api_proxy: ApiProxy,
    tmp_path: pathlib.Path,
) -> None:
    """A 401 neither ends the operator, nor loses what was to be handled."""
    token = tmp_path / 'token'
    token.write_text('first')
    api_proxy.admit('Bearer first')
    process = operator(
        HANDLERS
        + """
import os, pathlib

@kopf.on.login()
def login_fn(logger, **_):
    token = pathlib.Path(os.environ['TOKEN']).read_text()
    logger.info(f'Logging in as {token}.')
    return kopf.ConnectionInfo(server=os.environ['SERVER'], token=token)

@kopf.on.update('kopfexamples')
def update_fn(logger, patch, **_):
    wait = pathlib.Path(os.environ['TOKEN']).with_name('go-on')
    logger.info('Updating.')
    import time
    while not wait.exists():
        time.sleep(0.05)
    patch.status['updated'] = True
""",
        env={'SERVER': api_proxy.address, 'TOKEN': str(token)},
    )
    examples.create('one')
    process.wait_log('/one]', 'Created.')
    # The credentials end while a handler runs, so that its result is the first to be refused.
    examples.patch('one', {'spec': {'field': 'changed'}})
    process.wait_log('/one]', 'Updating.')
    token.write_text('second')
    api_proxy.admit('Bearer second')
    (tmp_path / 'go-on').touch()
    examples.wait('one', lambda body: body['status']['updated'])
    process.wait_log('Logging in as second.')
    examples.create('two')
    process.wait_log('/two]', 'Created.')
    assert api_proxy.refused >= 1
    assert process.count("Handler 'update_fn' succeeded") == 1
    assert process.stop() == 0


def test_a_path_that_refuses_everybody_stalls_nothing_else(
    operator: StartOperator,
    examples: ExampleObjects,
    api_proxy: ApiProxy,
    tmp_path: pathlib.Path,
) -> None:
    """As an aggregated API with a broken authentication: a new login would not help."""
    api_proxy.admit('Bearer any')
    broken = api_proxy.inject(lambda request: request.path.endswith('/configmaps'), code=401)
    process = operator(
        HANDLERS
        + """
@kopf.on.event('configmaps')
def event_fn(**_):
    pass
""",
        env={'KUBECONFIG': config_for(tmp_path, {'server': api_proxy.address}, {'token': 'any'})},
    )
    process.wait_log('/configmaps was refused (401 Unauthorized)')
    examples.create('one')
    process.wait_log('/one]', 'Created.')
    wait_for('retries of the path', lambda: len(broken.met) >= 3)
    assert process.count('has been initiated') == 1
    assert process.count('was refused (401 Unauthorized)') == 1
    assert process.stop() == 0


def test_credentials_are_renewed_before_they_are_refused(
    operator: StartOperator, examples: ExampleObjects, api_proxy: ApiProxy
) -> None:
    api_proxy.admit('Bearer number-1', 'Bearer number-2', 'Bearer number-3')
    process = operator(
        HANDLERS
        + """
import datetime, os

count = 0

@kopf.on.login()
async def login_fn(logger, **_):
    global count
    count += 1
    soon = datetime.timedelta(seconds=2 if count < 3 else 3600)
    return kopf.ConnectionInfo(
        server=os.environ['SERVER'], token=f'number-{count}',
        expiration=datetime.datetime.now(datetime.timezone.utc) + soon)
""",
        env={'SERVER': api_proxy.address},
    )
    examples.create('one')
    process.wait_log('/one]', 'Created.')

    def renewed() -> bool:
        examples.patch('one', {'spec': {'field': str(len(api_proxy.seen))}})
        return 'Bearer number-3' in api_proxy.seen

    wait_for(lambda: f'the third token in {set(api_proxy.seen)}', renewed)
    examples.create('two')
    process.wait_log('/two]', 'Created.')
    assert api_proxy.refused == 0
    assert process.stop() == 0


def test_a_token_file_that_changes(
    operator: StartOperator,
    examples: ExampleObjects,
    api_proxy: ApiProxy,
    tmp_path: pathlib.Path,
) -> None:
    token = tmp_path / 'token'
    token.write_text('first\n')
    api_proxy.admit('Bearer first')
    config = config_for(tmp_path, {'server': api_proxy.address}, {'tokenFile': 'token'})
    process = operator(HANDLERS, env={'KUBECONFIG': config})
    examples.create('one')
    process.wait_log('/one]', 'Created.')
    token.write_text('second\n')
    api_proxy.admit('Bearer second')
    examples.create('two')
    process.wait_log('/two]', 'Created.')
    assert process.stop() == 0


def test_an_exec_plugin_renews_its_token(
    operator: StartOperator,
    examples: ExampleObjects,
    api_proxy: ApiProxy,
    tmp_path: pathlib.Path,
) -> None:
    """The first token has an expiry, and the operator calls the plugin again before it."""
    plugin = tmp_path / 'plugin.py'
    plugin.write_text("""
import datetime, json, os, pathlib
calls = pathlib.Path(__file__).with_name('calls')
number = len(calls.read_text()) + 1 if calls.exists() else 1
calls.write_text('x' * number)
assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'
until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(
    seconds=62 if number == 1 else 3600)
status = {'token': 'first' if number == 1 else 'renewed',
          'expirationTimestamp': until.strftime('%Y-%m-%dT%H:%M:%SZ')}
print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',
                  'status': status}))
""")
    command = {
        'apiVersion': 'client.authentication.k8s.io/v1',
        'command': sys.executable,
        'args': [str(plugin)],
        'interactiveMode': 'Never',
    }
    api_proxy.admit('Bearer first')
    config = config_for(tmp_path, {'server': api_proxy.address}, {'exec': command})
    process = operator(HANDLERS, env={'KUBECONFIG': config})
    examples.create('one')
    process.wait_log('/one]', 'Created.')
    assert 'Bearer renewed' not in api_proxy.seen
    api_proxy.admit('Bearer renewed')
    examples.create('two')
    process.wait_log('/two]', 'Created.')
    assert process.stop() == 0


@pytest.mark.parametrize('form', ['path', 'data'])
def test_client_certificates(
    operator: StartOperator,
    examples: ExampleObjects,
    plane: Plane,
    tmp_path: pathlib.Path,
    form: str,
) -> None:
    pki = tmp_path / 'pki'
    make_pki(pki)
    command = 'openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=operator'
    options = '-config openssl.cnf -extensions ca -keyout client.key -out client.crt'
    subprocess.run(
        [*command.split(), *options.split()], cwd=pki, check=True, capture_output=True
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pki / 'client.crt'))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(pki / 'server.crt', pki / 'server.key')
    api_proxy = ApiProxy(plane.client, context)
    api_proxy.admit('')  # nothing but the certificate tells who it is
    process = operator(
        HANDLERS
        + """
import os, pathlib

@kopf.on.login()
def login_fn(**_):
    pki, form = pathlib.Path(os.environ['PKI']), os.environ['FORM']
    read = (lambda path: path) if form == 'path' else (lambda path: path.read_bytes())
    return kopf.ConnectionInfo(server=os.environ['SERVER'], **{
        f'ca_{form}': read(pki / 'ca.crt'),
        f'certificate_{form}': read(pki / 'client.crt'),
        f'private_key_{form}': read(pki / 'client.key')})
""",
        env={'SERVER': api_proxy.address, 'PKI': str(pki), 'FORM': form},
    )
    examples.create('one')
    process.wait_log('/one]', 'Created.')
    assert process.stop() == 0
    api_proxy.close()


def test_the_proxy_of_the_kubeconfig(
    operator: StartOperator,
    examples: ExampleObjects,
    plane: Plane,
    proxy: ConnectProxy,
    tmp_path: pathlib.Path,
) -> None:
    cluster = {
        'server': plane.client.server,
        'certificate-authority': str(plane.client.ca.resolve()),
        'proxy-url': proxy.address,
    }
    config = config_for(tmp_path, cluster, {'token': plane.client.token})
    process = operator(HANDLERS, env={'KUBECONFIG': config})
    examples.create('one')
    process.wait_log('/one]', 'Created.')
    assert set(proxy.targets) == {plane.client.server.removeprefix('https://')}
    assert process.stop() == 0


@pytest.mark.parametrize('plugin', [False, True])
@pytest.mark.parametrize('trust', [False, True])
def test_the_proxy_of_the_environment(
    operator: StartOperator,
    examples: ExampleObjects,
    plane: Plane,
    proxy: ConnectProxy,
    tmp_path: pathlib.Path,
    trust: bool,
    plugin: bool,
) -> None:
    """It is used only if the settings say so, whatever kind of credentials it is."""
    cluster = {
        'server': plane.client.server,
        'certificate-authority': str(plane.client.ca.resolve()),
    }
    status = {'token': plane.client.token}
    answer = {'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential'}
    command = {
        'apiVersion': answer['apiVersion'],
        'command': 'echo',
        'args': [json.dumps({**answer, 'status': status})],
        'interactiveMode': 'Never',
    }
    config = config_for(tmp_path, cluster, {'exec': command} if plugin else status)
    process = operator(
        HANDLERS
        + f"""
@kopf.on.startup()
def configure(settings, **_):
    settings.networking.trust_env = {trust}
""",
        env={
            'KUBECONFIG': config,
            'HTTPS_PROXY': proxy.address,
            'https_proxy': proxy.address,
            'NO_PROXY': '',
            'no_proxy': '',
        },
    )
    examples.create('one')
    process.wait_log('/one]', 'Created.')
    assert bool(proxy.targets) == trust
    assert process.stop() == 0


@pytest.mark.parametrize('library', ['kubernetes', 'pykube'])
def test_libraries_that_the_user_imports_are_asked(
    operator: StartOperator,
    examples: ExampleObjects,
    plane: Plane,
    tmp_path: pathlib.Path,
    library: str,
) -> None:
    """The operator logs in as the library does; and the official one is configured by that."""
    pytest.importorskip(library)
    config = tmp_path / 'own-kubeconfig'
    config.write_text(kubeconfig(plane.client))
    process = operator(
        HANDLERS
        + f"""
import {library}

@kopf.on.update('kopfexamples')
def update_fn(logger, name, namespace, **_):
    if '{library}' == 'kubernetes':
        api = kubernetes.client.CustomObjectsApi()
        found = api.get_namespaced_custom_object(
            'kopf.dev', 'v1', namespace, 'kopfexamples', name)['metadata']['name']
    else:
        api = pykube.HTTPClient(pykube.KubeConfig.from_file())
        found = pykube.Namespace.objects(api).get_by_name(namespace).name
    logger.info(f'Found {{found}}.')
""",
        '--verbose',
        env={'KUBECONFIG': str(config), 'PATH': os.environ['PATH']},
    )
    examples.create('one')
    process.wait_log('/one]', 'Created.')
    examples.patch('one', {'spec': {'field': 'changed'}})
    process.wait_log('Found ')
    titles = {'kubernetes': 'Client is configured via kubeconfig file.',
              'pykube': 'Pykube is configured via kubeconfig file.'}
    process.wait_log(titles[library])
    assert process.stop() == 0


@pytest.mark.parametrize(
    'fields, header',
    [
        ({'token': 't'}, 'Bearer t'),
        ({'scheme': 'Custom', 'token': 't'}, 'Custom t'),
        ({'scheme': 'Custom'}, 'Custom'),
        ({'username': 'u', 'password': 'p'}, 'Basic dTpw'),
        ({'username': 'u', 'password': 'p', 'token': 't'}, 'Basic dTpw'),
        ({}, ''),
    ],
)
def test_what_is_sent(
    operator: StartOperator,
    examples: ExampleObjects,
    api_proxy: ApiProxy,
    fields: dict[str, str],
    header: str,
) -> None:
    api_proxy.admit(header)
    process = operator(
        f"{HANDLERS}\n@kopf.on.login()\ndef login_fn(**_):\n"
        f"    return kopf.ConnectionInfo(server={api_proxy.address!r}, **{fields!r})\n"
    )
    examples.create('obj')
    process.wait_log('/obj]', 'Created.')
    assert set(api_proxy.seen) == {header}
    assert process.stop() == 0


@pytest.mark.parametrize('insecure', [True, False, None])
def test_unknown_authorities(
    operator: StartOperator,
    examples: ExampleObjects,
    plane: Plane,
    tmp_path: pathlib.Path,
    insecure: bool | None,
) -> None:
    pki = tmp_path / 'pki'
    make_pki(pki)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pki / 'server.crt', pki / 'server.key')
    api_proxy = ApiProxy(plane.client, context)
    api_proxy.admit('Bearer t')
    fields = {'server': api_proxy.address, 'token': 't', 'insecure': insecure}
    process = operator(
        f"{HANDLERS}\n@kopf.on.startup()\ndef configure(settings, **_):\n"
        f"    settings.networking.error_backoffs = 0.1\n\n"
        f"@kopf.on.login()\ndef login_fn(**_):\n    return kopf.ConnectionInfo(**{fields!r})\n"
    )
    examples.create('obj')
    if insecure:
        process.wait_log('/obj]', 'Created.')
    else:
        process.wait_log('certificate')
        assert api_proxy.seen == []
    process.stop()
    api_proxy.close()


def test_the_first_priority_is_tried_first(
    operator: StartOperator, examples: ExampleObjects, api_proxy: ApiProxy
) -> None:
    """The others are there for the case that it is refused."""
    api_proxy.admit('Bearer best', 'Bearer worst')
    process = operator(
        HANDLERS
        + """
import os

def make(token, priority):
    @kopf.on.login(id=token)
    def login_fn(**_):
        return kopf.ConnectionInfo(server=os.environ['SERVER'], token=token, priority=priority)

make('worst', 1)
make('best', 10)
""",
        env={'SERVER': api_proxy.address},
    )
    examples.create('one')
    process.wait_log('/one]', 'Created.')
    assert set(api_proxy.seen) == {'Bearer best'}
    api_proxy.admit('Bearer worst')
    examples.create('two')
    process.wait_log('/two]', 'Created.')
    assert api_proxy.seen[-1] == 'Bearer worst'
    assert process.stop() == 0


def test_events_of_what_has_no_namespace(
    operator: StartOperator, plane: Plane, namespace: str, api_proxy: ApiProxy
) -> None:
    api_proxy.admit('Bearer t')
    fields = {'server': api_proxy.address, 'token': 't', 'default_namespace': namespace}
    process = operator(
        f"import kopf\n\n@kopf.on.login()\ndef login_fn(**_):\n"
        f"    return kopf.ConnectionInfo(**{fields!r})\n\n"
        f"@kopf.on.event('kopfclusters', labels={{'of': {namespace!r}}})\n"
        f"def event_fn(body, **_):\n    kopf.info(body, reason='Seen', message='It is there.')\n"
    )
    path = '/apis/kopf.dev/v1/kopfclusters'
    metadata = {'name': namespace, 'labels': {'of': namespace}}
    kind = {'apiVersion': 'kopf.dev/v1', 'kind': 'KopfCluster'}
    plane.client.create(path, {**kind, 'metadata': metadata, 'spec': {}})
    events = wait_for(
        'the event',
        lambda: plane.client.get(f'/api/v1/namespaces/{namespace}/events')['items'],
    )
    assert events[0]['involvedObject']['kind'] == 'KopfCluster'
    plane.client.delete(f'{path}/{namespace}')
    assert process.stop() == 0

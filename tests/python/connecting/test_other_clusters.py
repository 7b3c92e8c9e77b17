"""Embedded clusters keep operators to themselves: nothing else is touched by tests and `kopf dev`.

The other clusters are strangers here: they only note who has connected, and nobody must.
"""
from __future__ import annotations

import asyncio
import datetime
import functools
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

import kopf
from kopf._connect import active_cluster
from kopf._connect.credentials import Vault
from kopf._declare.registries import SmartOperatorRegistry
from kopf._errors import OtherClusterError
from kopf.testing import Cluster, KopfRunner

CRD = (pathlib.Path(__file__).parents[3] / 'examples/python/01-quickstart/crd.yaml').read_text()

OBJECT = {'apiVersion': 'kopf.dev/v1', 'kind': 'KopfExample', 'metadata': {'name': 'one'},
          'spec': {}}

HANDLERS = '''
import kopf

@kopf.on.create('kopfexamples')
def fn(**_):
    return 'handled'
'''

PLACE = 'KUBE_CONFIG_DEFAULT_LOCATION'


class Stranger:
    """A server that is not to be connected to, and the configurations that lead to it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.socket = socket.create_server(('127.0.0.1', 0))
        self.port: int = self.socket.getsockname()[1]
        self.url = f'https://127.0.0.1:{self.port}'
        self.connections = 0
        self.home = folder / 'home'
        self.kubeconfig = self.home / '.kube' / 'config'
        self.kubeconfig.parent.mkdir(parents=True)
        self.account = folder / 'serviceaccount'
        self.account.mkdir()
        for name, text in {'token': 'stolen', 'namespace': 'default', 'ca.crt': 'none'}.items():
            (self.account / name).write_text(text)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()

    def config(self, user: dict[str, Any]) -> str:
        return json.dumps({
            'apiVersion': 'v1', 'kind': 'Config', 'current-context': 'production',
            'contexts': [{'name': 'production', 'context': {'cluster': 'c', 'user': 'u'}}],
            'clusters': [{'name': 'c', 'cluster': {
                'server': self.url, 'insecure-skip-tls-verify': True}}],
            'users': [{'name': 'u', 'user': user}]})

    @property
    def variables(self) -> dict[str, str]:
        """Of a pod."""
        return {'KUBERNETES_SERVICE_HOST': '127.0.0.1', 'KUBERNETES_SERVICE_PORT': str(self.port)}

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items()
                     if name != 'KUBECONFIG' and not name.startswith('KOPF_')}
        return {**inherited, 'HOME': str(self.home)}


@pytest.fixture()
def stranger(tmp_path: pathlib.Path) -> Iterator[Stranger]:
    stranger = Stranger(tmp_path)
    yield stranger
    # A connection that was made is accepted by now, since this one comes after it.
    with socket.create_connection(('127.0.0.1', stranger.port), timeout=30) as last:
        last.settimeout(30)
        last.recv(1)
    stranger.socket.close()
    assert stranger.connections == 1, "The other cluster was connected to."


@pytest.fixture()
def at_home(stranger: Stranger, monkeypatch: pytest.MonkeyPatch) -> Stranger:
    """This process would log in to the stranger by `~/.kube/config`."""
    stranger.kubeconfig.write_text(stranger.config({'token': 'stolen'}))
    monkeypatch.setenv('HOME', str(stranger.home))
    monkeypatch.delenv('KUBECONFIG', raising=False)
    return stranger


@pytest.fixture()
def in_pod(stranger: Stranger, monkeypatch: pytest.MonkeyPatch) -> Stranger:
    """This process would log in to the stranger by the service account, for all that it knows."""
    import kubernetes.config.incluster_config
    import kubernetes_asyncio.config.incluster_config
    import lightkube.config.kubeconfig
    import pykube.config
    account = str(stranger.account)
    for name, value in stranger.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr('kopf._connect.logins._SECRETS', account)
    monkeypatch.setattr('kopf._connect.client_libraries.SERVICE_ACCOUNT', account)
    for module in kubernetes.config.incluster_config, kubernetes_asyncio.config.incluster_config:
        monkeypatch.setattr(module, 'SERVICE_TOKEN_FILENAME', f'{account}/token')
        monkeypatch.setattr(module, 'SERVICE_CERT_FILENAME', f'{account}/ca.crt')
    for cls in pykube.config.KubeConfig, lightkube.config.kubeconfig.KubeConfig:
        for method in 'from_service_account', 'from_env':
            function: Any = getattr(cls, method).__func__
            if function.__defaults__:
                monkeypatch.setattr(function, '__defaults__', (account, *function.__defaults__[1:]))
    return stranger


@functools.cache
def can_play_a_pod() -> bool:
    unshare = shutil.which('unshare')
    tried = unshare and subprocess.run(
        [unshare, '-rm', 'mount', '-t', 'tmpfs', 'tmpfs', '/run'], capture_output=True)
    return bool(tried and tried.returncode == 0)


def as_in_pod(stranger: Stranger, *command: str) -> list[str]:
    """The command in a separate mount namespace that has a service account."""
    if not can_play_a_pod():
        pytest.skip("mount namespaces are not permitted here")
    folder = '/run/secrets/kubernetes.io/serviceaccount'
    script = (f'mount -t tmpfs tmpfs /run && mkdir -p {folder} && '
              f'test -e /var/run/secrets && cp {stranger.account}/* {folder} && exec "$@"')
    return ['unshare', '-rm', 'sh', '-c', script, 'sh', *command]


# Each library in its usual default configuration: the names of the namespaces that it sees.

LISTINGS = {
    'kubernetes': '''
def fn(**_):
    import kubernetes
    return [item.metadata.name for item in kubernetes.client.CoreV1Api().list_namespace().items]
''',
    'kubernetes.config': '''
def fn(**_):
    import kubernetes.config
    try:
        kubernetes.config.load_incluster_config()
    except kubernetes.config.ConfigException:
        kubernetes.config.load_kube_config()
    return [item.metadata.name for item in kubernetes.client.CoreV1Api().list_namespace().items]
''',
    'kubernetes.aio': '''
async def fn(**_):
    import kubernetes.aio.client, kubernetes.aio.config
    try:
        kubernetes.aio.config.load_incluster_config()
    except kubernetes.aio.config.ConfigException:
        await kubernetes.aio.config.load_kube_config()
    async with kubernetes.aio.client.ApiClient() as client:
        answer = await kubernetes.aio.client.CoreV1Api(client).list_namespace()
    return [item.metadata.name for item in answer.items]
''',
    'kubernetes_asyncio': '''
async def fn(**_):
    import kubernetes_asyncio
    async with kubernetes_asyncio.client.ApiClient() as client:
        answer = await kubernetes_asyncio.client.CoreV1Api(client).list_namespace()
    return [item.metadata.name for item in answer.items]
''',
    'pykube': '''
def fn(**_):
    import pykube
    client = pykube.HTTPClient(pykube.KubeConfig.from_env())
    return [item.name for item in pykube.Namespace.objects(client)]
''',
    'lightkube': '''
def fn(**_):
    import lightkube
    from lightkube.resources.core_v1 import Namespace
    return [item.metadata.name for item in lightkube.Client().list(Namespace)]
''',
    'kr8s': '''
def fn(**_):
    import kr8s
    return [item.name for item in kr8s.get('namespaces')]
''',
    'no library': '''
def fn(**_):
    return ['own-1', 'own-2']
''',
}

# Two clusters, one after another, and an operator on each.
TWO_CLUSTERS = '''
import os, pathlib, sys
{imported}
from kopf._declare.registries import SmartOperatorRegistry
from kopf.testing import Cluster, KopfRunner

before = dict(os.environ)
for number in 1, 2:
    with Cluster(manifests=['crd.yaml'], workloads=False) as cluster:
        name = f'own-{{number}}'
        cluster.apply({{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {{'name': name}}}})
        with KopfRunner(['run', '-A', '--standalone', 'handlers.py'],
                        registry=SmartOperatorRegistry(), timeout=30):
            cluster.apply('obj.yaml')
            seen = cluster.wait_for('kopfexamples', 'one', lambda obj: obj['status']['fn'])
        assert name in seen['status']['fn'], seen['status']
assert dict(os.environ) == before
print('all on the embedded clusters')
'''


def write_project(folder: pathlib.Path, listing: str) -> None:
    (folder / 'crd.yaml').write_text(CRD)
    (folder / 'obj.yaml').write_text(yaml.safe_dump(OBJECT))
    (folder / 'handlers.py').write_text(
        f"import kopf\n\n@kopf.on.create('kopfexamples'){listing}")


def run_beside(
        stranger: Stranger, place: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run it where a kubeconfig, a service account or both lead to the stranger."""
    words, environment = list(command), stranger.environment
    if place != 'account':
        stranger.kubeconfig.write_text(stranger.config({'token': 'stolen'}))
    if place != 'kubeconfig':
        words, environment = as_in_pod(stranger, *words), environment | stranger.variables
    return subprocess.run(words, env=environment, cwd=stranger.home.parent,
                          capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize('library, when, place', [
    *((library, when, 'both') for library in LISTINGS for when in ('before', 'after')
      if (library, when) != ('no library', 'before')),
    ('kubernetes', 'before', 'kubeconfig'), ('kubernetes_asyncio', 'before', 'kubeconfig'),
    ('pykube', 'before', 'kubeconfig'), ('no library', 'after', 'kubeconfig'),
    ('kubernetes', 'after', 'account'), ('pykube', 'after', 'account'),
    ('no library', 'after', 'account'),
])
def test_libraries_lead_to_each_cluster(
        stranger: Stranger, tmp_path: pathlib.Path, library: str, when: str, place: str) -> None:
    write_project(tmp_path, LISTINGS[library])
    imported = f'import {library}' if when == 'before' else ''
    (tmp_path / 'script.py').write_text(TWO_CLUSTERS.format(imported=imported))
    done = run_beside(stranger, place, sys.executable, 'script.py')
    assert 'all on the embedded clusters' in done.stdout, done.stdout + done.stderr


# `kopf dev`.

@pytest.mark.parametrize('library, place', [
    *((library, 'both') for library in LISTINGS),
    ('kubernetes', 'kubeconfig'), ('no library', 'kubeconfig'), ('no library', 'account'),
])
def test_libraries_lead_to_the_cluster_of_kopf_dev(
        stranger: Stranger, tmp_path: pathlib.Path, library: str, place: str) -> None:
    write_project(tmp_path, LISTINGS[library].replace('own-1', 'kube-system'))
    (tmp_path / 'wait.py').write_text('''
import json, time, urllib.request
import os, ssl, yaml
config = yaml.safe_load(open(os.environ['KUBECONFIG']))
request = urllib.request.Request(
    config['clusters'][0]['cluster']['server'] +
    '/apis/kopf.dev/v1/namespaces/default/kopfexamples/one',
    headers={'Authorization': 'Bearer ' + config['users'][0]['user']['token']})
context = ssl._create_unverified_context()
for _ in range(300):
    status = json.load(urllib.request.urlopen(request, context=context)).get('status') or {}
    if 'fn' in status:
        print('seen:', *status['fn'])
        break
    time.sleep(.1)
''')
    done = run_beside(
        stranger, place, sys.executable, '-m', 'kopf', 'dev', 'handlers.py', '-f', 'crd.yaml',
        '-f', 'obj.yaml', '--exec', f'{sys.executable} wait.py')
    assert 'seen: ' in done.stdout and 'kube-system' in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_kopf_dev_refuses_other_clusters(stranger: Stranger, tmp_path: pathlib.Path) -> None:
    (tmp_path / 'handlers.py').write_text(HANDLERS + f'''
@kopf.on.login()
def login_fn(**_):
    return kopf.ConnectionInfo(server={stranger.url!r}, insecure=True)
''')
    done = run_beside(stranger, 'kubeconfig', sys.executable, '-m', 'kopf', 'dev', '--no-reload',
                      'handlers.py')
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith('Error: ')]
    assert f"handler 'login_fn' would log in to {stranger.url}, but" in line
    assert 'only use the embedded cluster https://127.0.0.1:' in line
    assert 'Traceback' not in done.stderr


def test_kopf_dev_tells_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in active_cluster.VARIABLES_OF_PODS:
        monkeypatch.setenv(name, 'x')
    with Cluster(environ=False, workloads=False) as cluster:
        environment = cluster.child_environment()
        assert environment['KUBECONFIG'] == str(cluster.kubeconfig)
        assert environment['KOPF_EMBEDDED_CLUSTER'] == cluster.url
        assert not {*active_cluster.VARIABLES_OF_PODS} & {*environment}
        assert os.environ['KUBERNETES_SERVICE_HOST'] == 'x'
        assert 'KOPF_EMBEDDED_CLUSTER' not in os.environ
    monkeypatch.setenv('KOPF_EMBEDDED_CLUSTER', 'https://a:1, https://b:2')
    assert active_cluster.get_servers() == ('https://a:1', 'https://b:2')


# Login handlers.

EXEC = {'exec': {'apiVersion': 'client.authentication.k8s.io/v1', 'command': 'false',
                 'interactiveMode': 'Never'}}

# A login handler leads to the other cluster.
ESCAPES = {
    'explicit info': '''
    return kopf.ConnectionInfo(server=stranger.url, token='stolen', insecure=True)
''',
    'kubeconfig of the environment': '''
    os.environ['KUBECONFIG'] = str(stranger.kubeconfig)
    return kopf.login_with_kubeconfig(**kwargs)
''',
    'kubeconfig with a plugin': '''
    stranger.kubeconfig.write_text(stranger.config(EXEC))
    os.environ['KUBECONFIG'] = str(stranger.kubeconfig)
    return kopf.login_with_kubeconfig(**kwargs)
''',
    'kubernetes by a file': '''
    import kubernetes.config
    kubernetes.config.load_kube_config(str(stranger.kubeconfig))
    config = kubernetes.client.Configuration.get_default_copy()
    return kopf.ConnectionInfo(server=config.host, insecure=True)
''',
    'kubernetes by the variable': '''
    import kubernetes.config
    os.environ['KUBECONFIG'] = str(stranger.kubeconfig)
    return kopf.login_via_client(**kwargs)
''',
    'kubernetes in a pod': '''
    import kubernetes.config
    os.environ.update(stranger.variables)
    kubernetes.config.load_incluster_config()
    config = kubernetes.client.Configuration.get_default_copy()
    return kopf.ConnectionInfo(server=config.host, insecure=True)
''',
    'kubernetes_asyncio by the variable': '''
    import kubernetes_asyncio
    os.environ['KUBECONFIG'] = str(stranger.kubeconfig)
    return kopf.login_via_async_client(**kwargs)
''',
    'pykube by the variable': '''
    import pykube
    os.environ['KUBECONFIG'] = str(stranger.kubeconfig)
    return kopf.login_via_pykube(**kwargs)
''',
    'service account': '''
    import dataclasses
    os.environ['KUBECONFIG'] = str(stranger.kubeconfig)
    return kopf.login_with_service_account(**kwargs)
''',
}


@pytest.fixture()
def escape(in_pod: Stranger, at_home: Stranger) -> Iterator[Callable[[str], Any]]:
    """Make a registry with that login handler; what the handler changes is undone."""
    import kubernetes.client
    default = kubernetes.client.Configuration._default
    previous = os.environ.get('KUBECONFIG')

    def make(title: str) -> SmartOperatorRegistry:
        registry = SmartOperatorRegistry()
        scope = {'kopf': kopf, 'os': os, 'stranger': in_pod, 'EXEC': EXEC}
        exec(f'def login_fn(**kwargs):{ESCAPES[title]}', scope)
        kopf.on.login(registry=registry)(scope['login_fn'])
        return registry

    yield make
    kubernetes.client.Configuration._default = default
    if previous is None:
        os.environ.pop('KUBECONFIG', None)
    for name in in_pod.variables:
        os.environ.pop(name, None)


@pytest.mark.parametrize('title', ESCAPES)
def test_login_handlers_cannot_lead_elsewhere(
        kopf_cluster: Cluster, escape: Any, stranger: Stranger, tmp_path: pathlib.Path,
        title: str) -> None:
    (tmp_path / 'handlers.py').write_text(HANDLERS)
    runner = KopfRunner(['run', '-A', '--standalone', str(tmp_path / 'handlers.py')],
                        registry=escape(title), timeout=30)
    with pytest.raises(OtherClusterError) as caught, runner:
        runner.future.result(timeout=30)  # it ends by itself
    assert isinstance(caught.value, kopf.LoginError)
    message = str(caught.value)
    assert f"The login handler 'login_fn' would log in to {stranger.url}, but " in message
    assert f'may only use the embedded cluster {kopf_cluster.url} of' in message
    assert runner.exit_code == 1


def test_plugins_cannot_lead_elsewhere(
        at_home: Stranger, kopf_cluster: Cluster, tmp_path: pathlib.Path) -> None:
    """The engine reads the kubeconfig of plugins itself, and it is another one by then."""
    own = yaml.safe_load(kopf_cluster.kubeconfig.read_text())
    own['users'][0]['user'] = EXEC
    (tmp_path / 'own').write_text(json.dumps(own))
    registry = SmartOperatorRegistry()

    @kopf.on.login(registry=registry)
    def login_fn(**kwargs: Any) -> Any:
        os.environ['KUBECONFIG'] = str(tmp_path / 'own')
        info = kopf.login_with_kubeconfig(**kwargs)
        os.environ['KUBECONFIG'] = str(at_home.kubeconfig)
        return info

    (tmp_path / 'handlers.py').write_text(HANDLERS)
    runner = KopfRunner(['run', '-A', '--standalone', str(tmp_path / 'handlers.py')],
                        registry=registry, timeout=30)
    with pytest.raises(Exception, match=f'leads to {at_home.url}/, and the operator may only '
                                        f'use {kopf_cluster.url}'), runner:
        runner.future.result(timeout=30)


LOADS = {
    'kubernetes': '''
    import kubernetes.config
    try:
        kubernetes.config.load_incluster_config()
    except kubernetes.config.ConfigException:
        kubernetes.config.load_kube_config()
    config = kubernetes.client.Configuration.get_default_copy()
    return kopf.ConnectionInfo(
        server=config.host, ca_path=config.ssl_ca_cert,
        token=config.get_api_key_with_prefix('BearerToken').partition(' ')[2])
''',
    'kubernetes_asyncio': '''
    import kubernetes_asyncio.config
    try:
        kubernetes_asyncio.config.load_incluster_config()
    except kubernetes_asyncio.config.ConfigException:
        await kubernetes_asyncio.config.load_kube_config()
    config = kubernetes_asyncio.client.Configuration.get_default_copy()
    return kopf.ConnectionInfo(
        server=config.host, ca_path=config.ssl_ca_cert,
        token=config.api_key['BearerToken'].partition(' ')[2])
''',
    'pykube': '''
    import pykube
    config = pykube.KubeConfig.from_env()
    return kopf.ConnectionInfo(
        server=config.cluster['server'], token=config.user['token'],
        ca_path=config.cluster['certificate-authority'].filename())
''',
    'lightkube': '''
    import base64, lightkube
    config = lightkube.KubeConfig.from_env().get()
    return kopf.ConnectionInfo(server=config.cluster.server, token=config.user.token,
                               ca_data=config.cluster.certificate_auth_data)
''',
    'service account': '''
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)
''',
    'nothing': None,
}


@pytest.mark.parametrize('title', LOADS)
def test_login_handlers_are_led_to_the_cluster(
        in_pod: Stranger, at_home: Stranger, kopf_cluster: Cluster, kopf_runner: Any,
        tmp_path: pathlib.Path, title: str) -> None:
    """With all libraries imported before, in a pod, with a kubeconfig."""
    login = f'''
@kopf.on.login()
async def login_fn(**kwargs):{LOADS[title]}
'''
    (tmp_path / 'handlers.py').write_text(HANDLERS + (login if LOADS[title] else ''))
    kopf_cluster.apply(CRD)
    kopf_runner(tmp_path / 'handlers.py')
    kopf_cluster.apply(OBJECT)
    kopf_cluster.wait_for('kopfexamples', 'one', lambda obj: obj['status']['fn'] == 'handled')


async def run_with(vault: Vault, **kwargs: Any) -> None:
    await asyncio.wait_for(
        kopf.operator(clusterwide=True, standalone=True, vault=vault, **kwargs), 30)


def test_ready_made_credentials_are_checked(kopf_cluster: Cluster, stranger: Stranger) -> None:
    info = kopf.ConnectionInfo(server=stranger.url, insecure=True)
    with pytest.raises(OtherClusterError, match=f'would log in to {stranger.url}, '):
        asyncio.run(run_with(Vault({'x': info})))


def test_any_of_the_active_clusters_can_be_used(at_home: Stranger) -> None:
    """Also one that logins are not led to, and one that is not the latest."""
    registry = SmartOperatorRegistry()

    @kopf.on.create('kopfexamples', id='fn', registry=registry)
    def fn(**_: Any) -> str:
        return 'handled'

    with Cluster(environ=False, manifests=[CRD, OBJECT], workloads=False) as first, \
            Cluster(manifests=[CRD, OBJECT], workloads=False) as second, \
            Cluster(manifests=[CRD, OBJECT], workloads=False) as third:
        for cluster in first, second, third:
            info = kopf.ConnectionInfo(
                server=f'{cluster.url}/', token=cluster.token, insecure=True)

            async def run(info: kopf.ConnectionInfo = info, cluster: Cluster = cluster) -> None:
                stop = asyncio.Event()
                running = asyncio.create_task(
                    run_with(Vault({'x': info}), registry=registry, stop_flag=stop))
                await asyncio.to_thread(
                    cluster.wait_for, 'kopfexamples', 'one', lambda obj: obj['status']['fn'])
                stop.set()
                await running

            asyncio.run(run())


def test_an_operator_beside_an_isolated_cluster_is_refused(
        at_home: Stranger, tmp_path: pathlib.Path) -> None:
    """Logins are not led to the cluster with `environ=False`, but neither can they go elsewhere."""
    (tmp_path / 'handlers.py').write_text(HANDLERS)
    with Cluster(environ=False, workloads=False) as cluster:
        assert 'KUBECONFIG' not in os.environ
        runner = KopfRunner(['run', '-A', '--standalone', str(tmp_path / 'handlers.py')],
                            registry=SmartOperatorRegistry(), timeout=30)
        with pytest.raises(OtherClusterError, match=cluster.url), runner:
            runner.future.result(timeout=30)


def test_the_next_login_is_checked_too(kopf_cluster: Cluster, stranger: Stranger) -> None:
    registry = SmartOperatorRegistry()
    logins: list[str] = []

    @kopf.on.login(registry=registry)
    def login_fn(**_: Any) -> kopf.ConnectionInfo:
        server = stranger.url if logins else kopf_cluster.url
        logins.append(server)
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
        return kopf.ConnectionInfo(
            server=server, token=kopf_cluster.token, insecure=True, expiration=soon)

    @kopf.on.event('pods', registry=registry)
    def fn(**_: Any) -> None:
        pass

    async def run() -> None:
        await asyncio.wait_for(
            kopf.operator(clusterwide=True, standalone=True, registry=registry), 30)

    with pytest.raises(OtherClusterError, match=f'would log in to {stranger.url}'):
        asyncio.run(run())
    assert logins == [kopf_cluster.url, stranger.url]


def test_an_operator_that_outlives_its_cluster(
        at_home: Stranger, tmp_path: pathlib.Path) -> None:
    """It starts with the cluster, but logs in when the cluster has ended."""
    (tmp_path / 'handlers.py').write_text(HANDLERS + '''
import pathlib, time

@kopf.on.startup()
def wait(**_):
    (pathlib.Path(__file__).parent / 'started').touch()
    while not (pathlib.Path(__file__).parent / 'ended').exists():
        time.sleep(.01)
''')
    cluster = Cluster(workloads=False).start()
    runner = KopfRunner(['run', '-A', '--standalone', str(tmp_path / 'handlers.py')],
                        registry=SmartOperatorRegistry(), timeout=30)
    with pytest.raises(OtherClusterError, match=cluster.url), runner:
        cluster.stop()
        (tmp_path / 'ended').touch()
        runner.future.result(timeout=30)


def test_without_embedded_clusters_any_server_will_do() -> None:
    assert active_cluster.get_servers() == ()
    assert active_cluster.get_kubeconfig() is None
    active_cluster.check('x', 'https://anywhere', ())


@pytest.mark.parametrize('server, same', [
    ('https://127.0.0.1:6443', True), ('https://127.0.0.1:6443/', True),
    ('HTTPS://127.0.0.1:6443', True), ('http://127.0.0.1:6443', False),
    ('https://127.0.0.1', False), ('https://127.0.0.1:64430', False),
    ('https://127.0.0.1:6443@elsewhere:6443', False), ('https://elsewhere:6443', False),
    ('https://127.0.0.1:6443/other', False), ('https://127.0.0.1:nope', False), ('', False),
])
def test_addresses(server: str, same: bool) -> None:
    if same:
        active_cluster.check('x', server, ['https://127.0.0.1:6443'])
    else:
        with pytest.raises(OtherClusterError):
            active_cluster.check('x', server, ['https://127.0.0.1:6443'])


# What is changed in the process, and that it is put back.

def get_state() -> Any:
    import kr8s  # noqa: F401
    import kubernetes.aio.config.kube_config
    import kubernetes_asyncio.config.kube_config
    import lightkube.config.kubeconfig
    import pykube.config
    modules: list[Any] = [
        kubernetes.config, kubernetes.config.kube_config,
        kubernetes.aio.config, kubernetes.aio.config.kube_config,
        kubernetes_asyncio.config, kubernetes_asyncio.config.kube_config]
    functions: list[Any] = [
        pykube.config.KubeConfig.from_service_account,
        lightkube.config.kubeconfig.KubeConfig.from_service_account,
        lightkube.config.kubeconfig.KubeConfig.from_env]
    classes: list[Any] = [
        kubernetes.client.Configuration, kubernetes.aio.client.Configuration,
        kubernetes_asyncio.client.Configuration]
    return (
        dict(os.environ), list(sys.meta_path), [getattr(module, PLACE) for module in modules],
        [function.__func__.__defaults__ for function in functions],
        [cls._default for cls in classes],
    )


def hosts() -> list[str]:
    import kubernetes.aio.client
    import kubernetes_asyncio.client
    classes: list[Any] = [
        kubernetes.client.Configuration, kubernetes.aio.client.Configuration,
        kubernetes_asyncio.client.Configuration]
    return [cls.get_default_copy().host for cls in classes]


@pytest.fixture()
def configured(in_pod: Stranger, at_home: Stranger) -> Iterator[Stranger]:
    """All libraries are configured for the stranger already."""
    import kubernetes.aio.config
    import kubernetes_asyncio.config
    classes: list[Any] = [
        kubernetes.client.Configuration, kubernetes.aio.client.Configuration,
        kubernetes_asyncio.client.Configuration]
    kubernetes.config.load_kube_config(str(in_pod.kubeconfig))
    asyncio.run(kubernetes.aio.config.load_kube_config(str(in_pod.kubeconfig)))
    asyncio.run(kubernetes_asyncio.config.load_kube_config(str(in_pod.kubeconfig)))
    yield in_pod
    for cls in classes:
        cls.set_default(None)


def test_everything_is_put_back(configured: Stranger) -> None:
    assert hosts() == [configured.url] * 3
    before = get_state()
    for _ in range(2):
        with Cluster(workloads=False) as cluster:
            assert hosts() == [cluster.url] * 3
            assert os.environ['KUBECONFIG'] == str(cluster.kubeconfig)
            assert os.environ['KOPF_EMBEDDED_CLUSTER'] == cluster.url
            assert not {*active_cluster.VARIABLES_OF_PODS} & {*os.environ}
            assert get_state()[2] == [str(cluster.kubeconfig)] * 6
        assert get_state() == before
    assert hosts() == [configured.url] * 3


@pytest.mark.parametrize('order', [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0), (2, 0, 1)])
def test_clusters_end_in_any_order(configured: Stranger, order: tuple[int, ...]) -> None:
    before = get_state()
    clusters = [Cluster(workloads=False).start() for _ in range(3)]
    active = list(clusters)
    try:
        for index in order:
            latest = active[-1]
            assert os.environ['KUBECONFIG'] == str(latest.kubeconfig)
            assert get_state()[2] == [str(latest.kubeconfig)] * 6
            assert hosts() == [latest.url] * 3
            assert active_cluster.get_servers() == tuple(cluster.url for cluster in active)
            active.remove(clusters[index])
            clusters[index].stop()
    finally:
        for cluster in clusters:
            cluster.stop()
    assert get_state() == before


def test_what_others_changed_meanwhile_stays(
        configured: Stranger, monkeypatch: pytest.MonkeyPatch) -> None:
    import kubernetes.config.kube_config
    monkeypatch.setattr(kubernetes.config.kube_config, PLACE, 'before')
    with Cluster(workloads=False):
        os.environ['KUBECONFIG'] = 'changed'
        os.environ['KUBERNETES_SERVICE_HOST'] = 'changed'
        kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION = 'changed'
    try:
        assert os.environ['KUBECONFIG'] == 'changed'
        assert os.environ['KUBERNETES_SERVICE_HOST'] == 'changed'
        assert os.environ['KUBERNETES_SERVICE_PORT'] == str(configured.port)
        assert kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION == 'changed'
    finally:
        del os.environ['KUBECONFIG']


def test_a_failed_start_puts_everything_back(configured: Stranger) -> None:
    before = get_state()
    with pytest.raises(Exception, match='no such kind'):
        Cluster(manifests=[{'apiVersion': 'no/v1', 'kind': 'No', 'metadata': {'name': 'no'}}],
                workloads=False).start()
    assert get_state() == before
    assert active_cluster.get_servers() == ()

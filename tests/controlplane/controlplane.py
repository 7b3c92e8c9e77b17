#!/usr/bin/env python3
"""A real, throw-away Kubernetes control plane on this machine, without root.

    controlplane.py up DIR [--workloads | --controllers NAME,NAME,…]
    controlplane.py status DIR
    controlplane.py down DIR

``up`` starts etcd and kube-apiserver, and with ``--workloads`` also kube-controller-manager,
kube-scheduler and kwok with fake nodes, so that pods get Running without any kubelet. It takes
about 5 seconds. The folder then has:

* ``kubeconfig``: of an administrator;
* ``cluster.json``: the address and the tokens of the users ``operator-000``, ``operator-001``, …,
  who may do all;
* ``audit.log``: each request of those users and of all service accounts, so that requests can be
  counted.

The test sessions use the class :class:`ControlPlane`. There, the processes die together with the
session, even if it is killed. From the command line, they live until ``down``, which ends exactly
what ``up`` has started. Needed are the programs made by ``build`` beside this file (or in
$KOPF_CONTROLPLANE_BIN) and ``openssl``.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from cluster_client import ApiError, Client, kubeconfig, until, wait_for

USERS = 512
NODES = 2

AUDIT_POLICY = {
    'apiVersion': 'audit.k8s.io/v1',
    'kind': 'Policy',
    'omitStages': ['RequestReceived'],
    'omitManagedFields': True,
    'rules': [
        {'level': 'Metadata', 'userGroups': ['kopf:operators', 'system:serviceaccounts']},
        {'level': 'None'},
    ],
}

OPENSSL_CONFIG = """
[req]
distinguished_name = dn
prompt = no
[dn]
CN = test
[ca]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign,digitalSignature
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature,keyEncipherment
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = IP:127.0.0.1,IP:10.0.0.1,DNS:localhost,DNS:kubernetes.default.svc
[client]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
"""


class PlaneError(Exception):
    """The control plane cannot be started; the message says why and where the logs are."""


@dataclasses.dataclass(frozen=True)
class Request:
    """One request as the audit log has it."""

    user: str
    verb: str
    #: The plural, with the subresource if there is one: ``kopfexamples/status``. Empty for
    #: non-resource URLs.
    resource: str
    namespace: str | None
    name: str | None
    code: int
    uri: str


class ControlPlane:
    """One control plane in one folder: started here, or found running there."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder.resolve()
        self._pidfile = self.folder / 'pids.json'
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The administrator."""
        if self._client is None:
            info = self._info()
            self._client = Client(info['server'], info['token'], self.folder / 'pki' / 'ca.crt')
        return self._client

    @property
    def kubeconfig(self) -> pathlib.Path:
        return self.folder / 'kubeconfig'

    def user(self, name: str) -> Client:
        """One of the audited users who may do everything: ``operator-NNN``."""
        return self.client.as_token(self._info()['users'][name])

    def requests(self, user: str) -> list[Request]:
        """All requests of that user so far, in the order of their ends."""
        with (self.folder / 'audit.log').open() as log:
            return [
                request
                for line in log
                if f'"{user}"' in line
                if (request := parse_request(line)) is not None and request.user == user
            ]

    def up(
        self, *, workloads: bool = False, controllers: str | None = None, bound: bool = False
    ) -> None:
        """Start everything and wait until it is usable.

        :param workloads: also run the controllers, the scheduler, and the fake nodes.
        :param controllers: run only these controllers, by their names, separated by commas.
        :param bound: the processes must die with this process, however it dies.
        """
        if self.alive():
            raise PlaneError(f'{self.folder} has a running control plane; do "down" first.')
        shutil.rmtree(self.folder / 'etcd', ignore_errors=True)
        self._pidfile.unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            etcd_port, peer_port, api_port, kwok_port = free_ports(4)
            self._write_secrets(f'https://127.0.0.1:{api_port}')
            self._start_etcd(etcd_port, peer_port, bound=bound)
            self._start_apiserver(api_port, etcd_port, bound=bound)
            if workloads:
                self._start_workloads(kwok_port, bound=bound)
            elif controllers:
                self._start_controllers(controllers, bound=bound)
        except BaseException:
            self.down(keep=True)
            raise

    def alive(self) -> list[dict[str, Any]]:
        """The processes of this control plane which run now."""
        return [entry for entry in self._processes() if is_alive(entry)]

    def down(self, *, keep: bool = False) -> None:
        """End all that was started, the storage at last. The logs stay; the rest, only if
        asked so.
        """
        for entry in reversed(self._processes()):
            terminate(entry)
        self._pidfile.unlink(missing_ok=True)
        if not keep:
            for name in 'etcd', 'pki':
                shutil.rmtree(self.folder / name, ignore_errors=True)
            for name in (
                'tokens.csv',
                'kubeconfig',
                'cluster.json',
                'audit.log',
                'audit-policy.json',
            ):
                (self.folder / name).unlink(missing_ok=True)

    def _info(self) -> dict[str, Any]:
        return json.loads((self.folder / 'cluster.json').read_text())

    def _processes(self) -> list[dict[str, Any]]:
        return json.loads(self._pidfile.read_text()) if self._pidfile.exists() else []

    def _write_secrets(self, server: str) -> None:
        pki = self.folder / 'pki'
        if not (pki / 'sa.pub').exists():
            make_pki(pki)
        admin = secrets.token_hex(16)
        users = {f'operator-{number:03}': secrets.token_hex(16) for number in range(USERS)}
        self._client = Client(server, admin, pki / 'ca.crt')
        self._write_private(
            'tokens.csv',
            ''.join(
                [
                    f'{admin},admin,admin,"system:masters"\n',
                    *(
                        f'{token},{name},{name},"system:masters,kopf:operators"\n'
                        for name, token in users.items()
                    ),
                ]
            ),
        )
        self._write_private(
            'cluster.json', json.dumps({'server': server, 'token': admin, 'users': users})
        )
        self._write_private('kubeconfig', kubeconfig(self._client))
        (self.folder / 'audit-policy.json').write_text(json.dumps(AUDIT_POLICY, indent=2))

    def _write_private(self, name: str, text: str) -> None:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text)

    def _start_etcd(self, port: int, peer_port: int, *, bound: bool) -> None:
        url, peer_url = f'http://127.0.0.1:{port}', f'http://127.0.0.1:{peer_port}'
        process = self._spawn(
            'etcd',
            '--name=test',
            f'--data-dir={self.folder / "etcd"}',
            '--unsafe-no-fsync',
            f'--listen-client-urls={url}',
            f'--advertise-client-urls={url}',
            f'--listen-peer-urls={peer_url}',
            f'--initial-advertise-peer-urls={peer_url}',
            f'--initial-cluster=test={peer_url}',
            '--log-level=warn',
            f'--quota-backend-bytes={8 << 30}',
            '--snapshot-count=100000',
            bound=bound,
        )

        def healthy() -> bool:
            with urllib.request.urlopen(f'{url}/health', timeout=2) as response:
                return json.loads(response.read())['health'] == 'true'

        self._wait('etcd', healthy, process)

    def _start_apiserver(self, port: int, etcd_port: int, *, bound: bool) -> None:
        pki = self.folder / 'pki'
        process = self._spawn(
            'kube-apiserver',
            f'--etcd-servers=http://127.0.0.1:{etcd_port}',
            '--bind-address=127.0.0.1',
            '--advertise-address=127.0.0.1',
            f'--secure-port={port}',
            f'--tls-cert-file={pki / "server.crt"}',
            f'--tls-private-key-file={pki / "server.key"}',
            f'--token-auth-file={self.folder / "tokens.csv"}',
            f'--client-ca-file={pki / "ca.crt"}',
            '--anonymous-auth=false',
            '--authorization-mode=RBAC',
            '--service-account-issuer=https://kubernetes.default.svc',
            f'--service-account-key-file={pki / "sa.pub"}',
            f'--service-account-signing-key-file={pki / "sa.key"}',
            '--service-cluster-ip-range=10.0.0.0/16',
            '--allow-privileged=true',
            '--endpoint-reconciler-type=none',
            '--profiling=false',
            # Throttling would only add noise to the times and the counts of requests.
            '--enable-priority-and-fairness=false',
            '--max-requests-inflight=4000',
            '--max-mutating-requests-inflight=2000',
            '--delete-collection-workers=8',
            f'--audit-policy-file={self.folder / "audit-policy.json"}',
            f'--audit-log-path={self.folder / "audit.log"}',
            '--audit-log-mode=blocking',
            '--audit-log-maxsize=100000',
            '--v=0',
            bound=bound,
        )
        self._wait('kube-apiserver', lambda: self.client.get('/readyz') == 'ok', process)

    def _start_controllers(self, controllers: str, *, bound: bool) -> None:
        pki = self.folder / 'pki'
        self._spawn(
            'kube-controller-manager',
            f'--kubeconfig={self.kubeconfig}',
            f'--controllers={controllers}',
            '--leader-elect=false',
            '--secure-port=0',
            f'--service-account-private-key-file={pki / "sa.key"}',
            f'--root-ca-file={pki / "ca.crt"}',
            '--use-service-account-credentials=false',
            '--kube-api-qps=500',
            '--kube-api-burst=1000',
            bound=bound,
        )

    def _start_workloads(self, kwok_port: int, *, bound: bool) -> None:
        config = f'--kubeconfig={self.kubeconfig}'
        self._start_controllers('*', bound=bound)
        self._spawn(
            'kube-scheduler',
            config,
            '--leader-elect=false',
            '--secure-port=0',
            '--kube-api-qps=500',
            '--kube-api-burst=1000',
            bound=bound,
        )
        self._spawn(
            'kwok',
            config,
            '--manage-all-nodes=false',
            '--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake',
            f'--server-address=127.0.0.1:{kwok_port}',
            '--cidr=10.244.0.0/16',
            '--node-ip=127.0.0.1',
            '--node-lease-duration-seconds=40',
            bound=bound,
        )
        for number in range(NODES):
            self.client.create('/api/v1/nodes', fake_node(f'kwok-{number}'), exist_ok=True)

        def usable() -> bool:
            nodes = self.client.get('/api/v1/nodes')['items']
            self.client.get('/api/v1/namespaces/default/serviceaccounts/default')
            return sum(map(is_ready, nodes)) >= NODES

        self._wait('The fake nodes', usable)

    def _spawn(self, name: str, *args: str, bound: bool) -> subprocess.Popen[bytes]:
        program = programs_folder() / name
        if not program.exists():
            raise PlaneError(
                f'{program} is not there. Run: {pathlib.Path(__file__).with_name("build")}'
            )
        logs = self.folder / 'logs'
        logs.mkdir(exist_ok=True)
        with open(logs / f'{name}.log', 'ab') as log:
            process = subprocess.Popen(
                [str(program), *args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=die_with_parent() if bound else None,
            )
        entry = {'name': name, 'pid': process.pid, 'started': start_ticks(process.pid)}
        self._pidfile.write_text(json.dumps([*self._processes(), entry]))
        return process

    def _wait(
        self, what: str, check: Callable[[], bool], process: subprocess.Popen[bytes] | None = None
    ) -> None:
        def check_or_fail() -> bool:
            if process is not None and process.poll() is not None:
                raise PlaneError(
                    f'{what} has ended: {process.returncode}; see {self.folder / "logs"}'
                )
            return check()

        try:
            wait_for(what, check_or_fail, timeout_seconds=90, interval_seconds=0.1)
        except TimeoutError as e:
            raise PlaneError(f'{what} is not ready: {e}; see {self.folder / "logs"}') from e


def programs_folder() -> pathlib.Path:
    if override := os.environ.get('KOPF_CONTROLPLANE_BIN'):
        return pathlib.Path(override).expanduser()
    cache = os.environ.get('XDG_CACHE_HOME') or '~/.cache'
    return pathlib.Path(cache).expanduser() / 'kopf' / 'controlplane' / 'bin'


@contextlib.contextmanager
def temporary_account(
    plane: ControlPlane,
    namespace: str,
    name: str,
    *,
    rules: list[dict[str, Any]],
    cluster_rules: list[dict[str, Any]],
) -> Iterator[Client]:
    """A service account with exactly these permissions in its namespace and in the whole
    cluster.
    """
    admin, rbac, unique = plane.client, '/apis/rbac.authorization.k8s.io/v1', f'{namespace}-{name}'
    subjects = [{'kind': 'ServiceAccount', 'name': name, 'namespace': namespace}]
    accounts = f'/api/v1/namespaces/{namespace}/serviceaccounts'
    admin.create(accounts, {'metadata': {'name': name}})
    for kind, prefix, granted in (
        ('Role', f'{rbac}/namespaces/{namespace}/', rules),
        ('ClusterRole', f'{rbac}/', cluster_rules),
    ):
        admin.create(f'{prefix}{kind.lower()}s', {'metadata': {'name': unique}, 'rules': granted})
        admin.create(
            f'{prefix}{kind.lower()}bindings',
            {
                'metadata': {'name': unique},
                'subjects': subjects,
                'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': kind, 'name': unique},
            },
        )
    try:
        answer = admin.create(f'{accounts}/{name}/token', {'spec': {'expirationSeconds': 3600}})
        yield admin.as_token(answer['status']['token'])
    finally:
        for kind in 'clusterrolebindings', 'clusterroles':
            admin.delete(f'{rbac}/{kind}/{unique}')


def parse_request(line: str) -> Request | None:
    """One line of the audit log; None if it is being written now, or if the request has another
    line to count.
    """
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    # A watch has two lines, and the one of its end comes too late. The other long requests are not
    # used here.
    if entry['verb'] == 'watch' and entry['stage'] != 'ResponseStarted':
        return None
    reference = entry.get('objectRef') or {}
    return Request(
        user=entry['user']['username'],
        verb=entry['verb'],
        resource='/'.join(filter(None, [reference.get('resource'), reference.get('subresource')])),
        namespace=reference.get('namespace'),
        name=reference.get('name'),
        code=(entry.get('responseStatus') or {}).get('code', 0),
        uri=entry['requestURI'],
    )


def make_client_certificate(pki: pathlib.Path, subject: str, name: str) -> None:
    """Make ``name.crt`` and ``name.key`` beside the authority which signs them."""
    request = f'openssl req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr'
    sign = f'openssl x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 1'
    for command in (
        [*request.split(), '-subj', subject, '-config', 'openssl.cnf'],
        [*sign.split(), '-out', f'{name}.crt', '-extfile', 'openssl.cnf', '-extensions', 'client'],
    ):
        subprocess.run(command, cwd=pki, check=True, capture_output=True)


def make_pki(folder: pathlib.Path) -> None:
    def openssl(*args: str) -> None:
        subprocess.run(['openssl', *args], cwd=folder, check=True, capture_output=True)

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    (folder / 'openssl.cnf').write_text(OPENSSL_CONFIG)
    openssl(
        'req',
        '-x509',
        '-newkey',
        'rsa:2048',
        '-nodes',
        '-days',
        '30',
        '-sha256',
        '-keyout',
        'ca.key',
        '-out',
        'ca.crt',
        '-subj',
        '/CN=test-ca',
        '-config',
        'openssl.cnf',
        '-extensions',
        'ca',
    )
    openssl(
        'req',
        '-newkey',
        'rsa:2048',
        '-nodes',
        '-keyout',
        'server.key',
        '-out',
        'server.csr',
        '-subj',
        '/CN=kube-apiserver',
        '-config',
        'openssl.cnf',
    )
    openssl(
        'x509',
        '-req',
        '-in',
        'server.csr',
        '-CA',
        'ca.crt',
        '-CAkey',
        'ca.key',
        '-CAcreateserial',
        '-days',
        '30',
        '-sha256',
        '-out',
        'server.crt',
        '-extfile',
        'openssl.cnf',
        '-extensions',
        'server',
    )
    openssl('genrsa', '-out', 'sa.key', '2048')
    openssl('rsa', '-in', 'sa.key', '-pubout', '-out', 'sa.pub')


def fake_node(name: str) -> dict[str, Any]:
    resources = {'cpu': '64', 'memory': '256Gi', 'pods': '1000'}
    return {
        'apiVersion': 'v1',
        'kind': 'Node',
        'metadata': {
            'name': name,
            'annotations': {'kwok.x-k8s.io/node': 'fake', 'node.alpha.kubernetes.io/ttl': '0'},
            'labels': {
                'type': 'kwok',
                'kubernetes.io/hostname': name,
                'kubernetes.io/os': 'linux',
                'kubernetes.io/arch': 'amd64',
                'kubernetes.io/role': 'agent',
            },
        },
        'status': {'allocatable': resources, 'capacity': resources},
    }


def is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get('status', {}).get('conditions', [])
    return not node['spec'].get('taints') and any(
        condition['type'] == 'Ready' and condition['status'] == 'True' for condition in conditions
    )


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(('127.0.0.1', 0))
        return [sock.getsockname()[1] for sock in sockets]


def die_with_parent() -> Callable[[], None]:
    """What a child does before it becomes the program: ask the kernel to be killed when the parent
    dies.
    """
    if not sys.platform.startswith('linux'):
        return lambda: None
    libc, pr_set_pdeathsig = ctypes.CDLL(None), 1
    return lambda: libc.prctl(pr_set_pdeathsig, signal.SIGKILL)


def start_ticks(pid: int) -> int | None:
    """When the process has started, so that a reused pid is never taken for it. None if it does not
    run.
    """
    try:
        stat = pathlib.Path(f'/proc/{pid}/stat').read_text()
    except OSError:
        return None
    state, *rest = stat.rpartition(')')[2].split()
    return None if state == 'Z' else int(rest[18])


def is_alive(entry: dict[str, Any]) -> bool:
    return entry['started'] is not None and start_ticks(entry['pid']) == entry['started']


def terminate(entry: dict[str, Any]) -> None:
    """End one process: politely, then not. It may be a child of this process or of nobody."""
    for number in signal.SIGTERM, signal.SIGKILL:
        if not is_alive(entry):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(entry['pid'], number)
        for _ in until(5.0, 0.05):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(entry['pid'], os.WNOHANG)
            if not is_alive(entry):
                return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('command', choices=['up', 'status', 'down'])
    parser.add_argument('folder', type=pathlib.Path, metavar='DIR')
    parser.add_argument(
        '--workloads',
        action='store_true',
        help='run the controllers, the scheduler and fake nodes, too',
    )
    parser.add_argument('--controllers', help='run only these controllers, and nothing else')
    args = parser.parse_args()
    plane = ControlPlane(args.folder)
    if args.command == 'up':
        started = time.monotonic()
        try:
            plane.up(workloads=args.workloads, controllers=args.controllers)
        except (PlaneError, ApiError) as e:
            sys.exit(str(e))
        print(f'Up in {time.monotonic() - started:.1f} s.')
        print(f'export KUBECONFIG={plane.kubeconfig}')
    elif args.command == 'down':
        plane.down()
    else:
        for entry in plane.alive():
            print(entry['name'], entry['pid'])
        sys.exit(0 if plane.alive() else 1)


if __name__ == '__main__':
    main()

"""A real, throw-away Kubernetes control plane on this machine, without root.

The test sessions and the benchmarks use the class :class:`ControlPlane`; for people there is
``python -m tests.controlplane``. It needs ``openssl``, and the programs that ``build`` beside this
file makes (or those in ``$KOPF_CONTROLPLANE_BIN``).
"""

from __future__ import annotations

import json
import os
import pathlib
import secrets
import shutil
import subprocess
import urllib.request
from collections.abc import Callable
from typing import Any

from tests.controlplane.audit import AUDIT_POLICY, Request, parse_request
from tests.support.client import Client, kubeconfig, wait_for
from tests.support.pki import make_pki
from tests.support.processes import (
    die_with_parent,
    free_ports,
    is_alive,
    start_ticks,
    terminate,
)

#: The script that builds the programs of the control plane.
BUILD = pathlib.Path(__file__).with_name('build')

USERS = 512
NODES = 2


class PlaneError(Exception):
    """The control plane cannot be started; the message says why and where the logs are."""


class ControlPlane:
    """A control plane in a folder: one that this process starts, or one that runs there already."""

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
        """All requests of that user so far, in the order in which they have ended."""
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
        """Start all processes, and wait until the cluster is usable.

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
        """The processes of this control plane that run now."""
        return [entry for entry in self._processes() if is_alive(entry)]

    def down(self, *, keep: bool = False) -> None:
        """End all processes, etcd last. The logs stay; the other files only with ``keep``."""
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
            raise PlaneError(f'{program} is not there. Run: {BUILD}')
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

"""Starts the servers to be compared: a real control plane, and the embedded cluster as a process.

Each comes in two forms: with those few controllers that every object meets (garbage collection,
namespaces, service accounts), and with all controllers, the scheduler and nodes. Used by
__main__.py and by the tests.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shlex
import subprocess
import time
from collections.abc import Iterator

from tests.controlplane.plane import ControlPlane

from .exchange import Server
from .running import INTERVAL_SECONDS, PATIENCE_SECONDS, admin_request

ROOT = pathlib.Path(__file__).resolve().parents[2]

CONTROLLERS = ','.join(
    [
        'namespace-controller',
        'garbage-collector-controller',
        'serviceaccount-controller',
        'root-ca-certificate-publisher-controller',
    ]
)
#: The command that starts ours; $KOPF_CONFORMANCE_OURS overrides it.
OURS = 'cargo run --quiet --locked -p kopf-cluster --example serve -- {kubeconfig}'


@contextlib.contextmanager
def real_server(folder: pathlib.Path, *, workloads: bool) -> Iterator[Server]:
    plane = ControlPlane(folder)
    plane.up(workloads=workloads, controllers=CONTROLLERS, bound=True)
    try:
        yield Server(plane.kubeconfig)
    finally:
        plane.down()


@contextlib.contextmanager
def our_server(folder: pathlib.Path, *, workloads: bool) -> Iterator[Server]:
    folder.mkdir(parents=True, exist_ok=True)
    kubeconfig = folder / 'kubeconfig'
    kubeconfig.unlink(missing_ok=True)
    command = os.environ.get('KOPF_CONFORMANCE_OURS', OURS)
    with (folder / 'log').open('wb') as log:
        process = subprocess.Popen(
            [part.format(kubeconfig=kubeconfig) for part in shlex.split(command)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, 'KOPF_CLUSTER_WORKLOADS': '1' if workloads else '0'},
        )
    try:
        yield wait_for_server(kubeconfig, process, folder / 'log')
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_SECONDS)


def wait_for_server(
    kubeconfig: pathlib.Path, process: subprocess.Popen[bytes], log: pathlib.Path
) -> Server:
    deadline = time.monotonic() + 10 * PATIENCE_SECONDS  # it may have to be built
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, IndexError, KeyError, TypeError):
            server = Server(kubeconfig)
            if server.send(admin_request('GET', '/readyz')).code == 200:
                return server
        time.sleep(INTERVAL_SECONDS)
    raise RuntimeError(f'The embedded cluster is not ready: {log.read_text()[-2000:]}')

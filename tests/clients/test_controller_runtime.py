"""An operator in Go on controller-runtime does the same on the embedded cluster as on a real one.

It is built with Go, so it is a part of ``make test-real`` only, for both clusters.
"""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.client import wait_for
from tests.support.manifests import apply
from tests.support.operator_process import REPOSITORY, OperatorProcess
from tests.support.plane import Plane

PEERS = REPOSITORY / 'benches' / 'peers'


@pytest.fixture()
def started() -> Iterator[list[OperatorProcess]]:
    processes: list[OperatorProcess] = []
    yield processes
    for process in processes:
        process.kill()


def test_controller_runtime(
    plane: Plane, namespace: str, tmp_path: pathlib.Path, started: list[OperatorProcess]
) -> None:
    """Informers of client-go: lists by watches with bookmarks, protobuf for built-in kinds."""
    program = tmp_path / 'operator'
    subprocess.run(
        ['go', 'build', '-o', str(program), '.'], cwd=PEERS / 'controller-runtime', check=True
    )
    apply(plane.client, PEERS / 'crd.json')
    path = f'/apis/bench.dev/v1/namespaces/{namespace}/widgets'
    process = OperatorProcess(
        program,
        log=tmp_path / 'log',
        env={'KUBECONFIG': str(plane.kubeconfig), 'BENCH_NAMESPACE': namespace},
    ).start()
    started.append(process)
    body = {
        'apiVersion': 'bench.dev/v1',
        'kind': 'Widget',
        'metadata': {'name': 'one'},
        'spec': {'title': 'first', 'color': 'red', 'size': 1},
    }
    plane.client.create(path, body)

    def generation() -> int:
        seen = plane.client.find(f'{path}/one') or {}
        return seen.get('status', {}).get('observedGeneration', 0)

    wait_for(lambda: f'the status in {process.tail()}', lambda: generation() == 1)
    plane.client.patch(f'{path}/one', {'spec': {'size': 2}})
    wait_for(lambda: f'the new status in {process.tail()}', lambda: generation() == 2)
    plane.client.delete(f'{path}/one')
    wait_for(
        lambda: f'the end of the object in {process.tail()}',
        lambda: plane.client.find(f'{path}/one') is None,
    )

"""Operators on kopf 1.45.2 do the same on the embedded cluster as on a real one."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from tests.support.examples import ExampleObjects
from tests.support.manifests import apply, delete_and_wait
from tests.support.operator_process import REPOSITORY, OperatorProcess
from tests.support.plane import Plane
from tests.support.upstream import python_of_upstream


@pytest.fixture()
def started() -> Iterator[list[OperatorProcess]]:
    processes: list[OperatorProcess] = []
    yield processes
    for process in processes:
        process.kill()


def test_upstream_kopf(
    plane: Plane,
    namespace: str,
    examples: ExampleObjects,
    tmp_path: pathlib.Path,
    started: list[OperatorProcess],
) -> None:
    folder = REPOSITORY / 'examples' / 'python' / '01-quickstart'
    process = OperatorProcess(
        python_of_upstream(),
        *('run', str(folder / 'operator.py'), '--standalone', '-n', namespace),
        log=tmp_path / 'log',
        env={'KUBECONFIG': str(plane.kubeconfig)},
    ).start()
    started.append(process)
    apply(plane.client, folder / 'obj.yaml', namespace)
    examples.wait('my-example', lambda body: body['status']['create_fn']['message'])
    examples.patch('my-example', {'spec': {'field': 'changed'}})
    examples.wait('my-example', lambda body: body['status']['update_fn']['message'])
    delete_and_wait(plane.client, folder / 'obj.yaml', namespace)
    process.wait_log('Deleted my-example. Goodbye!')
    assert process.stop() == 0

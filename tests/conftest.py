"""The fixtures of all suites that need a cluster.

One cluster serves the whole session, whichever folders are tested: the tests are isolated by
namespaces, and by CRDs of their own. It is a real control plane, or the embedded cluster with
``KOPF_TEST_CLUSTER=embedded``. To iterate on a test, keep a real one running by ``python -m
tests.controlplane up DIR --workloads``, and set ``KOPF_CONTROLPLANE_DIR=DIR``.

The suites without a cluster (``tests/python``, ``tests/conformance``) use none of these fixtures,
so nothing is started for them.
"""

from __future__ import annotations

import atexit
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.controlplane.plane import BUILD, ControlPlane, PlaneError
from tests.support.client import Client, kubeconfig
from tests.support.embedded import EmbeddedPlane
from tests.support.examples import ExampleObjects, new_namespace, remove_namespace
from tests.support.manifests import CRDS, apply
from tests.support.operator_process import OperatorProcess, python_under_test
from tests.support.plane import Plane


@functools.cache
def shared_plane() -> Plane:
    """The only cluster of the session: started by the first test that needs it, stopped at exit."""
    if os.environ.get('KOPF_TEST_CLUSTER', 'real') == 'embedded':
        plane: Plane = start_embedded()
    elif folder := os.environ.get('KOPF_CONTROLPLANE_DIR'):
        plane = running = ControlPlane(pathlib.Path(folder))
        if not running.alive():
            pytest.exit(f'No control plane runs in KOPF_CONTROLPLANE_DIR={folder}', returncode=2)
    else:
        plane = start_plane()
    for manifest in sorted(CRDS.glob('*.yaml')):
        apply(plane.client, manifest)
    return plane


def start_embedded() -> EmbeddedPlane:
    folder = pathlib.Path(tempfile.mkdtemp(prefix='kopf-embedded-'))
    plane = EmbeddedPlane(folder, python_under_test())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(plane.down)
    plane.up()
    return plane


def start_plane() -> ControlPlane:
    if 'KOPF_CONTROLPLANE_BIN' not in os.environ:
        # This takes no time when everything is built. ``make test-real`` builds first, with visible
        # progress.
        answer = subprocess.run(
            [str(BUILD)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        if answer.returncode != 0:
            pytest.exit(answer.stderr.strip(), returncode=2)
    folder = pathlib.Path(tempfile.mkdtemp(prefix='kopf-controlplane-'))
    plane = ControlPlane(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(plane.down)
    try:
        plane.up(workloads=True, bound=True)
    except PlaneError as e:
        pytest.exit(str(e), returncode=2)
    return plane


@pytest.fixture(scope='session')
def plane() -> Iterator[Plane]:
    plane = shared_plane()
    yield plane
    plane.client.close()


@pytest.fixture()
def namespace(plane: Plane) -> Iterator[str]:
    """A namespace for this test only."""
    name = new_namespace(plane.client, 'test')
    yield name
    remove_namespace(plane.client, name)


@pytest.fixture()
def operator(
    plane: Plane, namespace: str, tmp_path: pathlib.Path
) -> Iterator[Callable[..., OperatorProcess]]:
    """Start an operator: ``operator(path_or_text, *options, client=…, env=…)``. The fixture
    kills it after the test.

    By default, it serves the namespace of the test, as an administrator.
    """
    started: list[OperatorProcess] = []

    def start(
        script: pathlib.Path | str,
        *options: str,
        client: Client | None = None,
        env: dict[str, str] | None = None,
        python: pathlib.Path | None = None,
        wait: bool = True,
        **_: Any,
    ) -> OperatorProcess:
        number = len(started)
        if isinstance(script, str):
            text, script = script, tmp_path / f'script_{number}.py'
            script.write_text(text)
        config = tmp_path / f'kubeconfig-{number}'
        config.write_text(kubeconfig(client or plane.client, namespace=namespace))
        chosen = 'KOPF_RUN_NAMESPACE' in (env or {})
        if not chosen and not any(option in ('-A', '-n') for option in options):
            options = ('-n', namespace, *options)
        peered = any(option.startswith('--peering') for option in options)
        process = OperatorProcess(
            python or python_under_test(),
            'run',
            str(script),
            *(() if peered else ('--standalone',)),
            *options,
            log=tmp_path / f'operator-{number}.log',
            env={'KUBECONFIG': str(config), **(env or {})},
        )
        started.append(process)
        return process.start()

    yield start
    for process in started:
        process.kill()


@pytest.fixture()
def examples(plane: Plane, namespace: str) -> ExampleObjects:
    """The objects of the kind KopfExample in the namespace of the test."""
    return ExampleObjects(plane.client, namespace)

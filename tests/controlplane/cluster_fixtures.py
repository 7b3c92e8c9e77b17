"""The fixtures of all tests on a cluster; the conftest files import them.

One cluster serves the whole session, whichever folders are tested: the tests are isolated by
namespaces and by CRDs of their own. It is a real control plane, or the embedded cluster with
``KOPF_TEST_CLUSTER=embedded``. For quick development, start a real one by ``controlplane.py up DIR
--workloads``, and set ``KOPF_CONTROLPLANE_DIR=DIR``.
"""

from __future__ import annotations

import atexit
import functools
import os
import pathlib
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster_client import Client, kubeconfig, wait_for
from controlplane import ControlPlane, PlaneError
from embedded import EmbeddedPlane
from manifests import apply
from operator_process import OperatorProcess, python_under_test

Plane = ControlPlane | EmbeddedPlane

MANIFESTS = pathlib.Path(__file__).with_name('manifests')


@functools.cache
def shared_plane() -> Any:
    """The only cluster of the session: started at the first call, stopped at the exit."""
    if os.environ.get('KOPF_TEST_CLUSTER', 'real') == 'embedded':
        plane: Plane = start_embedded()
    elif folder := os.environ.get('KOPF_CONTROLPLANE_DIR'):
        plane = ControlPlane(pathlib.Path(folder))
        if not plane.alive():
            pytest.exit(f'No control plane runs in KOPF_CONTROLPLANE_DIR={folder}', returncode=2)
    else:
        plane = start_plane()
    for manifest in sorted(MANIFESTS.glob('*.yaml')):
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
    build = pathlib.Path(__file__).with_name('build')
    if 'KOPF_CONTROLPLANE_BIN' not in os.environ:
        # It takes no time when all is built; ``make test-real`` builds beforehand, with visible
        # progress.
        answer = subprocess.run(
            [str(build)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
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
def plane() -> Iterator[Any]:
    plane = shared_plane()
    yield plane
    plane.client.close()


@pytest.fixture()
def namespace(plane: Plane) -> Iterator[str]:
    """A namespace of this test only."""
    name = new_namespace(plane.client, 'test')
    yield name
    remove_namespace(plane.client, name)


def new_namespace(client: Client, prefix: str) -> str:
    name = f'{prefix}-{secrets.token_hex(4)}'
    client.create('/api/v1/namespaces', {'metadata': {'name': name}})
    return name


def remove_namespace(client: Client, name: str) -> None:
    """Start its removal. Nothing waits for it, but the finalizers of dead operators must not block
    it for ever.
    """
    for plural in 'kopfexamples', 'kopfstatuses', 'kopfstricts':
        path = f'/apis/kopf.dev/v1/namespaces/{name}/{plural}'
        for item in client.get(path)['items']:
            if item['metadata'].get('finalizers'):
                client.patch(
                    f'{path}/{item["metadata"]["name"]}', {'metadata': {'finalizers': None}}
                )
    client.delete(f'/api/v1/namespaces/{name}')


@pytest.fixture()
def operator(
    plane: Plane, namespace: str, tmp_path: pathlib.Path
) -> Iterator[Callable[..., OperatorProcess]]:
    """Start an operator: ``operator(path_or_text, *options, client=…, env=…)``; it is ended after
    the test.

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


class ExampleObjects:
    """Objects of one kind in one namespace, from the outside."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        plural: str = 'kopfexamples',
        kind: str = 'KopfExample',
    ) -> None:
        self.client = client
        self.kind = kind
        self.path = f'/apis/kopf.dev/v1/namespaces/{namespace}/{plural}'

    def create(self, name: str, **fields: Any) -> Any:
        metadata = {'name': name, **fields.pop('metadata', {})}
        return self.client.create(
            self.path,
            {
                'apiVersion': 'kopf.dev/v1',
                'kind': self.kind,
                'metadata': metadata,
                'spec': {},
                **fields,
            },
        )

    def patch(self, name: str, patch: Any) -> Any:
        return self.client.patch(f'{self.path}/{name}', patch)

    def delete(self, name: str) -> None:
        self.client.delete(f'{self.path}/{name}')

    def get(self, name: str) -> Any:
        return self.client.find(f'{self.path}/{name}')

    def list(self) -> list[Any]:
        return self.client.get(self.path)['items']

    def wait(self, name: str, check: Callable[[Any], Any], **options: Any) -> Any:
        """Wait until the object is so, and return it."""

        def seen() -> Any:
            body = self.get(name)
            try:
                return body if body is not None and check(body) else None
            except (KeyError, TypeError):
                return None  # The fields of the condition are not there yet.

        return wait_for(lambda: f'{name} as expected; it is {self.get(name)}', seen, **options)

    def wait_gone(self, name: str, **options: Any) -> None:
        wait_for(
            lambda: f'{name} is gone; it is {self.get(name)}',
            lambda: self.get(name) is None,
            **options,
        )

"""The pytest plugin: fixtures for the tests of operators. It is loaded by pytest itself."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kopf.testing import Cluster, KopfRunner


@pytest.fixture()
def kopf_cluster() -> Iterator[Cluster]:
    """A Kubernetes of this test only; `KUBECONFIG` points to it."""
    from kopf.testing import Cluster
    with Cluster() as cluster:
        yield cluster


@pytest.fixture()
def kopf_runner(kopf_cluster: Cluster) -> Iterator[Callable[..., KopfRunner]]:
    """Start an operator on the cluster of the test: `kopf_runner('handlers.py', '-v')`.

    It serves all namespaces, unless the arguments tell which. It is stopped after the test;
    an error of it fails the test.
    """
    import kopf
    from kopf.testing import KopfRunner
    with contextlib.ExitStack() as started:
        def run(*args: str, **kwargs: Any) -> KopfRunner:
            chosen = any(arg in ('-A', '--all-namespaces') or arg.startswith(('-n', '--namespace'))
                         for arg in args)
            command = ['run', '--standalone', *([] if chosen else ['-A']), *map(str, args)]
            kwargs.setdefault('timeout', 30)
            # The handlers of other tests must not be called.
            kwargs.setdefault('registry', kopf.OperatorRegistry())
            return started.enter_context(KopfRunner(command, **kwargs))

        yield run

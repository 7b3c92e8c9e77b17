"""The pytest plugin: fixtures for tests of operators. Pytest loads it by the entry point."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kopf.testing import Cluster, KopfRunner


@pytest.fixture()
def kopf_cluster() -> Iterator[Cluster]:
    """An embedded cluster for this test only; `KUBECONFIG` points to it."""
    from kopf.testing import Cluster
    with Cluster() as cluster:
        yield cluster


@pytest.fixture()
def kopf_runner(kopf_cluster: Cluster) -> Iterator[Callable[..., KopfRunner]]:
    """Start an operator on the cluster of the test: `kopf_runner('handlers.py', '-v')`.

    It serves all namespaces, unless the arguments name some. The fixture stops it after the
    test; an error of the operator fails the test.
    """
    from kopf._declare.registries import SmartOperatorRegistry
    from kopf.testing import KopfRunner
    with contextlib.ExitStack() as started:
        def run(*args: Any, **kwargs: Any) -> KopfRunner:
            words = [str(arg) for arg in args]
            scope = ('-A', '--all-namespaces', '-n', '--namespace')
            chosen = any(word.startswith(scope) for word in words)
            command = ['run', '--standalone', *([] if chosen else ['-A']), *words]
            kwargs.setdefault('timeout', 30)
            # The handlers of other tests must not be called.
            kwargs.setdefault('registry', SmartOperatorRegistry())
            return started.enter_context(KopfRunner(command, **kwargs))

        yield run

"""The tests of operators as users run them: on the embedded cluster, or on a real one."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / 'controlplane'), str(HERE.parent / 'parity')]

from cluster_fixtures import Plane, examples, namespace, operator, plane  # noqa: E402, F401
from gatekeeper import Gatekeeper  # noqa: E402
from managed_webhooks import StartOperator, Webhooks  # noqa: E402


@pytest.fixture(name='gatekeeper')
def own_gatekeeper(plane: Plane) -> Iterator[Gatekeeper]:  # noqa: F811
    """Somebody in front of the cluster; nobody is let in yet."""
    gatekeeper = Gatekeeper(plane.client)
    yield gatekeeper
    gatekeeper.close()


@pytest.fixture()
def webhooks(plane: Plane, namespace: str, operator: StartOperator) -> Iterator[Webhooks]:  # noqa: F811
    webhooks = Webhooks(plane, namespace, operator)
    yield webhooks
    webhooks.remove()

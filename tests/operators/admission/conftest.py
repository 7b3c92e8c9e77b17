"""Webhooks that an operator manages in the cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.operators.admission.managed_webhooks import StartOperator, Webhooks
from tests.support.plane import Plane


@pytest.fixture()
def webhooks(plane: Plane, namespace: str, operator: StartOperator) -> Iterator[Webhooks]:
    """The managed webhooks of this test; their configurations are removed after it."""
    webhooks = Webhooks(plane, namespace, operator)
    yield webhooks
    webhooks.remove()

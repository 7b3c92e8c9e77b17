"""Operators as users run them, on the embedded cluster or on a real one: fixtures beside those of
``tests/conftest.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.api_proxy import ApiProxy
from tests.support.plane import Plane


@pytest.fixture()
def api_proxy(plane: Plane) -> Iterator[ApiProxy]:
    """A proxy in front of the cluster. It refuses everybody until the test admits somebody."""
    proxy = ApiProxy(plane.client)
    yield proxy
    proxy.close()

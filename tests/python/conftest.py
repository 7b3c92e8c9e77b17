"""Fixtures: a fresh registry for each test, and an operator on the stand-in engine."""
from __future__ import annotations

import asyncio
import logging
import pathlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import kopf
from tests.python import fake_native


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings are errors in these tests."""
    for item in items:
        if item.path.is_relative_to(pathlib.Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings('error'))
            # kr8s 0.20.15 calls a function that Python 3.14 deprecates.
            item.add_marker(pytest.mark.filterwarnings(
                "ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning:kr8s"))


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    """Whatever a test configures is undone after it."""
    root, asyncio_logger = logging.getLogger(), logging.getLogger('asyncio')
    handlers, level, propagate = list(root.handlers), root.level, asyncio_logger.propagate
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    asyncio_logger.propagate = propagate


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()
    monkeypatch.setattr('kopf._declare.registries._default_registry', registry)
    return registry


Scenario = Callable[[fake_native.Operator], Awaitable[Any]]


@pytest.fixture
def run_operator(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run an operator on the stand-in engine while the scenario is played."""
    fake_native.install(monkeypatch)

    def run(scenario: Scenario, **kwargs: Any) -> Any:
        async def main() -> Any:
            stop_flag = asyncio.Event()
            tasks = await kopf.spawn_tasks(
                clusterwide=True, **{'stop_flag': stop_flag, **kwargs})
            try:
                return await asyncio.wait_for(scenario(fake_native.Operator.instances[-1]), 10)
            finally:
                stop_flag.set()
                await kopf.run_tasks(tasks)
        return asyncio.run(main())

    return run

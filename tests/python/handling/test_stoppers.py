"""`stopped` of daemons, in threads and in tasks."""
from __future__ import annotations

import asyncio
from typing import Any

import pytest

import kopf
from kopf._call.stoppers import DaemonStopper

EXITING = kopf.DaemonStoppingReason.OPERATOR_EXITING
DELETED = kopf.DaemonStoppingReason.RESOURCE_DELETED


def run(body: Any) -> Any:
    async def main() -> Any:
        return await body(DaemonStopper())
    return asyncio.run(main())


def test_flags() -> None:
    async def body(stopper: DaemonStopper) -> None:
        sync, other = stopper.sync_waiter, stopper.async_waiter
        assert not sync and not other and sync.reason is None and not stopper.is_set()
        stopper.set(EXITING)
        stopper.set(DELETED)
        assert sync and other.is_set() and sync.reason == EXITING | DELETED
        assert stopper.is_set(EXITING)
        assert not stopper.is_set(kopf.DaemonStoppingReason.DONE)
    run(body)


def test_waiting_in_threads() -> None:
    async def body(stopper: DaemonStopper) -> None:
        assert not stopper.sync_waiter.wait(0.001)
        waiting = asyncio.get_running_loop().run_in_executor(None, stopper.sync_waiter.wait)
        stopper.set(EXITING)
        assert await waiting
    run(body)


def test_waiting_in_tasks() -> None:
    async def body(stopper: DaemonStopper) -> None:
        assert not await stopper.async_waiter.wait(0.001)
        waiting = asyncio.ensure_future(stopper.async_waiter.wait(10))
        stopper.set(EXITING)
        assert await waiting
        with pytest.raises(NotImplementedError, match='wait'):
            await stopper.async_waiter
    run(body)

"""The kwarg `stopped` of daemons and timers: a flag to check and to wait for."""
from __future__ import annotations

import asyncio
import enum
import threading
import time
from collections.abc import Awaitable, Generator
from typing import Any, Generic, NoReturn, TypeVar

ReasonT = TypeVar('ReasonT', bound=enum.Flag)


class DaemonStoppingReason(enum.Flag):
    """Why a daemon has to stop, and how far its stopping has come."""

    DONE = enum.auto()
    FILTERS_MISMATCH = enum.auto()
    RESOURCE_DELETED = enum.auto()
    OPERATOR_PAUSING = enum.auto()
    OPERATOR_EXITING = enum.auto()
    DAEMON_SIGNALLED = enum.auto()
    DAEMON_CANCELLED = enum.auto()
    DAEMON_ABANDONED = enum.auto()


class DaemonStopper:
    """The side of Kopf: sets the flag."""

    def __init__(self) -> None:
        self.when: float | None = None
        self.reason: DaemonStoppingReason | None = None
        self.sync_event = threading.Event()
        self.async_event = asyncio.Event()

    # Not kept: they refer to the flag, and only the garbage collector frees cycles.
    @property
    def sync_waiter(self) -> SyncDaemonStopperChecker:
        return SyncFlagWaiter(self)

    @property
    def async_waiter(self) -> AsyncDaemonStopperChecker:
        return AsyncFlagWaiter(self)

    def __repr__(self) -> str:
        return f'<{type(self).__name__}: {self.is_set()}, reason={self.reason}>'

    def is_set(self, reason: DaemonStoppingReason | None = None) -> bool:
        if not self.sync_event.is_set():
            return False
        return reason is None or (self.reason is not None and reason in self.reason)

    def set(self, reason: DaemonStoppingReason | None = None) -> None:
        if self.when is None:
            self.when = time.monotonic()
        if reason is not None:
            self.reason = reason if self.reason is None else self.reason | reason
        self.sync_event.set()
        self.async_event.set()


class FlagWaiter(Generic[ReasonT]):
    """The side of daemons: whether to stop, and why."""

    def __init__(self, setter: DaemonStopper) -> None:
        self._setter = setter

    def __repr__(self) -> str:
        return f'<{type(self).__name__}: {self.is_set()}, reason={self.reason}>'

    def __bool__(self) -> bool:
        return self._setter.is_set()

    def is_set(self) -> bool:
        return self._setter.is_set()

    @property
    def reason(self) -> DaemonStoppingReason | None:
        return self._setter.reason

    def wait(self, timeout: float | None = None) -> Any:
        raise NotImplementedError

    def __await__(self) -> NoReturn:
        raise NotImplementedError("Daemon stoppers should not be awaited directly. "
                                  "Use `await stopped.wait()`.")


class SyncFlagWaiter(FlagWaiter[ReasonT], Generic[ReasonT]):
    """`stopped` of daemons in threads."""

    def wait(self, timeout: float | None = None) -> SyncFlagWaiter[ReasonT]:
        self._setter.sync_event.wait(timeout=timeout)
        return self


class AsyncFlagWaiter(FlagWaiter[ReasonT], Generic[ReasonT]):
    """`stopped` of daemons in tasks: `await stopped.wait(10)`."""

    def wait(self, timeout: float | None = None) -> AsyncFlagPromise[ReasonT]:
        return AsyncFlagPromise(self, timeout)


class AsyncFlagPromise(
        FlagWaiter[ReasonT], Awaitable[AsyncFlagWaiter[ReasonT]], Generic[ReasonT]):
    """What `stopped.wait()` returns in tasks, to be awaited."""

    def __init__(self, waiter: AsyncFlagWaiter[ReasonT], timeout: float | None) -> None:
        super().__init__(waiter._setter)
        self._waiter = waiter
        self._timeout = timeout

    def __await__(  # type: ignore[override]
            self,
    ) -> Generator[Any, None, AsyncFlagWaiter[ReasonT]]:
        return self._wait().__await__()

    async def _wait(self) -> AsyncFlagWaiter[ReasonT]:
        try:
            await asyncio.wait_for(self._setter.async_event.wait(), timeout=self._timeout)
        except asyncio.TimeoutError:
            pass
        return self._waiter


DaemonStopped = FlagWaiter[DaemonStoppingReason]
SyncDaemonStopperChecker = SyncFlagWaiter[DaemonStoppingReason]
AsyncDaemonStopperChecker = AsyncFlagWaiter[DaemonStoppingReason]

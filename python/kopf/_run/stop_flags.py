"""Flags that embedding code passes to an operator: to stop it, and to learn that it is ready.

They may belong to asyncio or to threads: events and futures of both.
"""
from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

Flag = asyncio.Future | asyncio.Event | concurrent.futures.Future | threading.Event

# How soon the watcher of a threading event notices that it is closed.
_POLLING_SECONDS = 0.5


class FlagWatcher:
    """Calls back in the event loop when the flag is raised, unless it is closed before."""

    def __init__(
            self,
            flag: Flag | None,
            loop: asyncio.AbstractEventLoop,
            callback: Callable[[Any], None],
    ) -> None:
        self._closed = threading.Event()
        self._callback = callback
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        if flag is None:
            pass
        elif isinstance(flag, asyncio.Event):
            self._task = loop.create_task(self._wait_async(flag), name='stop-flag waiter')
        elif isinstance(flag, (asyncio.Future, concurrent.futures.Future)):
            flag.add_done_callback(self._on_future)
        elif isinstance(flag, threading.Event):
            threading.Thread(
                target=self._wait_sync, args=[flag], name='stop-flag waiter', daemon=True).start()
        else:
            raise TypeError(f"Unsupported type of a flag: {flag!r}")

    def close(self) -> None:
        self._closed.set()
        if self._task is not None:
            self._task.cancel()

    async def _wait_async(self, flag: asyncio.Event) -> None:
        await flag.wait()
        self._report(True)

    def _wait_sync(self, flag: threading.Event) -> None:
        while not self._closed.is_set():
            if flag.wait(_POLLING_SECONDS):
                self._report_threadsafe(True)
                return

    def _on_future(self, flag: Any) -> None:
        if not flag.cancelled():
            self._report_threadsafe(flag.exception() or flag.result())

    def _report_threadsafe(self, value: Any) -> None:
        if not self._closed.is_set():
            try:
                self._loop.call_soon_threadsafe(self._report, value)
            except RuntimeError:
                pass  # the loop is closed: the operator has ended

    def _report(self, value: Any) -> None:
        if not self._closed.is_set():
            self._callback(value)


def raise_flag(flag: Flag | None) -> None:
    """Set the flag, of any supported class."""
    if flag is None:
        pass
    elif isinstance(flag, (asyncio.Event, threading.Event)):
        flag.set()
    elif isinstance(flag, asyncio.Future):
        flag.get_loop().call_soon_threadsafe(_set_result, flag)
    elif isinstance(flag, concurrent.futures.Future):
        _set_result(flag)
    else:
        raise TypeError(f"Unsupported type of a flag: {flag!r}")


def _set_result(flag: Any) -> None:
    if not flag.done():
        flag.set_result(None)

"""The threads in which synchronous functions run.

Handlers and timers share the executor of the settings. Daemons have separate threads, because they
run as long as their objects exist: they neither take threads away from handlers, nor wait for them.
If calls wait long for a thread, Kopf logs a warning.
"""
from __future__ import annotations

import collections
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from kopf._declare.settings import OperatorSettings

logger = logging.getLogger('kopf')

# How long a call may wait for a thread before it is worth a warning.
_PATIENCE_SECONDS = 5.0
# How often Kopf repeats the warning.
_REPEAT_SECONDS = 60.0
# The limit of threads for daemons, unless `settings.execution.max_workers` sets one.
_DAEMONS_AT_MOST = 1000


class Pools:
    """The threads of one operator."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: OperatorSettings) -> None:
        self._loop = loop
        self._settings = settings
        self._daemons = DaemonThreads(lambda: settings.execution.max_workers or _DAEMONS_AT_MOST)
        self._handlers_queue = _Queue(
            loop, "synchronous handlers and timers", lambda: getattr(
                settings.execution.executor, '_max_workers', None))
        self._daemons_queue = _Queue(
            loop, "synchronous daemons", lambda: self._daemons.limit)

    def run_handler(self, fn: Callable[[], None]) -> None:
        """Run it in the current executor of the settings."""
        self._settings.execution.executor.submit(self._handlers_queue.enter(fn))

    def run_daemon(self, fn: Callable[[], None]) -> None:
        """Run it in a thread for daemons."""
        self._daemons.submit(self._daemons_queue.enter(fn))


class DaemonThreads:
    """Threads that are started when needed, and do not keep the process from exiting.

    The limit can change at any time. Calls wait until a thread is free.
    """

    def __init__(self, get_limit: Callable[[], int]) -> None:
        self._get_limit = get_limit
        self._lock = threading.Lock()
        self._waiting: collections.deque[Callable[[], None]] = collections.deque()
        self._running = 0

    @property
    def limit(self) -> int:
        return self._get_limit()

    def submit(self, fn: Callable[[], None]) -> None:
        with self._lock:
            if self._running >= self.limit:
                self._waiting.append(fn)
                return
            self._running += 1
        threading.Thread(target=self._work, args=(fn,), name='kopf daemon', daemon=True).start()

    def _work(self, fn: Callable[[], None] | None) -> None:
        while fn is not None:
            try:
                fn()
            except BaseException:
                # The functions handle users' errors. No error may cost us the thread.
                logger.exception("A thread of a daemon has failed.")
            fn = self._get_next()

    def _get_next(self) -> Callable[[], None] | None:
        with self._lock:
            if self._waiting and self._running <= self.limit:
                return self._waiting.popleft()
            self._running -= 1
            return None


class _Queue:
    """Counts the calls that wait for a thread, and logs a warning if they wait long."""

    def __init__(
            self,
            loop: asyncio.AbstractEventLoop,
            title: str,
            get_limit: Callable[[], int | None],
    ) -> None:
        self._loop = loop
        self._title = title
        self._get_limit = get_limit
        self._lock = threading.Lock()
        self._waiting: dict[int, float] = {}
        self._next = 0
        self._check: asyncio.TimerHandle | None = None
        self._warned_at: float | None = None

    def enter(self, fn: Callable[[], None]) -> Callable[[], None]:
        """Wrap a function, to count it until it starts. Call it in the event loop only."""
        with self._lock:
            number = self._next = self._next + 1
            self._waiting[number] = time.monotonic()
        if self._check is None:
            self._check = self._loop.call_later(_PATIENCE_SECONDS, self._look)

        def start() -> None:
            with self._lock:
                self._waiting.pop(number, None)
            fn()

        return start

    def _look(self) -> None:
        self._check = None
        now = time.monotonic()
        with self._lock:
            count = len(self._waiting)
            oldest = next(iter(self._waiting.values()), now)
        if not count:
            return
        if now - oldest >= _PATIENCE_SECONDS and (
                self._warned_at is None or now - self._warned_at >= _REPEAT_SECONDS):
            self._warned_at = now
            limit = self._get_limit()
            threads = f"all {limit} threads" if limit is not None else "all threads"
            logger.warning(
                f"The pool is exhausted: {count} calls of {self._title} wait for a thread, "
                f"the longest for {now - oldest:.0f} seconds, since {threads} are busy. "
                f"Raise settings.execution.max_workers, or use async functions.")
        self._check = self._loop.call_later(_PATIENCE_SECONDS, self._look)

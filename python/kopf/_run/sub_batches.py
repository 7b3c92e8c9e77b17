"""Batches of sub-handlers under way: what the engine calls for a handler, and who waits for it.

`Invocation` adds a batch when a function has sub-handlers; the front removes it when the engine has
called them once. Threads of functions come here, too.
"""
from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf._call.causes import Cause
    from kopf._declare.handlers import ChangingHandler


class SubBatch:
    """The sub-handlers of one call, by their indexes."""

    __slots__ = ('cause', 'conclude', 'environment', 'indexes', 'lifecycle')

    def __init__(
            self,
            indexes: Sequence[int],
            lifecycle: Callable[..., Any] | None,
            cause: Cause,
            environment: contextvars.Context,
            conclude: Callable[[bool, float | None], None],
    ) -> None:
        self.indexes = indexes
        self.lifecycle = lifecycle
        self.cause = cause  # of the parent: the filters of sub-handlers see the same
        self.environment = environment
        self.conclude = conclude


class SubBatches:
    """All batches of sub-handlers of one operator."""

    def __init__(
            self,
            add_handler: Callable[[ChangingHandler], int],
            remove_handler: Callable[[int], None],
    ) -> None:
        self._add_handler = add_handler
        self._remove_handler = remove_handler
        self._by_index: dict[int, SubBatch] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._by_index)

    def get(self, index: int) -> SubBatch | None:
        """The batch of a sub-handler; None for all other handlers."""
        return self._by_index.get(index)

    def add(
            self,
            children: Sequence[ChangingHandler],
            lifecycle: Callable[..., Any] | None,
            cause: Cause,
            conclude: Callable[[bool, float | None], None],
    ) -> SubBatch:
        """Give indexes to the sub-handlers; they run in the context of the caller."""
        environment = contextvars.copy_context()
        with self._lock:
            indexes = [self._add_handler(child) for child in children]
            batch = SubBatch(indexes, lifecycle, cause, environment, conclude)
            self._by_index.update((index, batch) for index in indexes)
        return batch

    def remove(self, batch: SubBatch) -> None:
        with self._lock:
            for index in batch.indexes:
                self._by_index.pop(index, None)
                self._remove_handler(index)

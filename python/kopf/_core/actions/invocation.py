"""Calling of functions. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

from kopf._declare.visible_kwargs import is_async_fn

__all__ = ['context', 'is_async_fn']


@contextlib.contextmanager
def context(values: Iterable[tuple[ContextVar[Any], Any]]) -> Iterator[None]:
    """Set the variables for the block, and restore them after it."""
    with contextlib.ExitStack() as stack:
        for variable, value in values:
            stack.callback(variable.reset, variable.set(value))
        yield

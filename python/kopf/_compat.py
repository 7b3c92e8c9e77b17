"""What only upstream's addresses offer: code that existing operators import, and we do not use.

The addresses themselves (`kopf._cogs`, `kopf._core`, `kopf._kits`) are generated: see
`scripts/upstream_addresses.py`.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

from kopf._declare.handlers import Reason

HANDLER_REASONS = (Reason.CREATE, Reason.UPDATE, Reason.DELETE, Reason.RESUME)
REACTOR_REASONS = (Reason.NOOP, Reason.FREE, Reason.GONE)
ALL_REASONS = HANDLER_REASONS + REACTOR_REASONS


@contextlib.contextmanager
def context(values: Iterable[tuple[ContextVar[Any], Any]]) -> Iterator[None]:
    """Set the variables for the block, and restore them after it."""
    with contextlib.ExitStack() as stack:
        for variable, value in values:
            stack.callback(variable.reset, variable.set(value))
        yield

"""Lifecycles: which of the due handlers Kopf calls in one cycle of an object.

A lifecycle takes the due handlers and returns those to call now. The others wait for the next
cycle. The engine knows the lifecycles of this module by name; it has any other function called in
Python, with the state of the handlers and the kwargs of the cause.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kopf._declare.handlers import Handler

Handlers = Sequence[Handler]
LifeCycleFn = Callable[..., Handlers]


def all_at_once(handlers: Handlers, **_: Any) -> Handlers:
    """Call all of the handlers, one after another, in one cycle."""
    return handlers


def one_by_one(handlers: Handlers, **_: Any) -> Handlers:
    """Call the first of the handlers in each cycle."""
    return handlers[:1]


def randomized(handlers: Handlers, **_: Any) -> Handlers:
    """Call one of the handlers in each cycle, chosen at random."""
    import random
    return [random.choice(handlers)] if handlers else []


def shuffled(handlers: Handlers, **_: Any) -> Handlers:
    """Call all of the handlers in one cycle, in a random order."""
    import random
    return random.sample(list(handlers), k=len(handlers))


def asap(handlers: Handlers, *, state: Any, **_: Any) -> Handlers:
    """Call the handler with the fewest attempts in each cycle: a failing one waits for others."""
    return sorted(handlers, key=lambda handler: state[handler.id].retries or 0)[:1]


def get_default_lifecycle() -> LifeCycleFn:
    """Return the lifecycle that operators use unless they are given another one."""
    return _default_lifecycle


def set_default_lifecycle(lifecycle: LifeCycleFn | None) -> None:
    """Replace the lifecycle that operators use unless they are given another one.

    Args:
        lifecycle: The new lifecycle; None restores the original one.
    """
    global _default_lifecycle
    import logging
    logging.getLogger(__name__).warning(
        f"The default lifecycle is already set to {_default_lifecycle}, "
        f"overriding it to {lifecycle}.")
    _default_lifecycle = lifecycle if lifecycle is not None else asap


_default_lifecycle: LifeCycleFn = asap
_NAMES: dict[Any, str] = {fn: fn.__name__ for fn in
                          (asap, all_at_once, one_by_one, randomized, shuffled)}


def describe(lifecycle: LifeCycleFn) -> str:
    """The name of a lifecycle for the engine; 'front' if Python has to call it."""
    try:
        return _NAMES.get(lifecycle, 'front')
    except TypeError:  # an unhashable callable
        return 'front'


class HandlerState:
    """How far one handler has come."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        import datetime
        started = data.get('started')
        self.started = datetime.datetime.fromisoformat(started) if started else None
        self.retries: int = data.get('retries') or 0
        self.success: bool = bool(data.get('success'))
        self.failure: bool = bool(data.get('failure'))

    @property
    def finished(self) -> bool:
        return self.success or self.failure


class State(Mapping[str, HandlerState]):
    """How far all handlers of a cycle have come, by their ids."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data

    def __getitem__(self, key: str) -> HandlerState:
        return HandlerState(self._data[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

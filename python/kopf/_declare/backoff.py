"""How long to wait between the attempts of a failing handler: `backoff=` of the decorators.

A number is a constant delay. `kopf.exponential()` grows with every attempt. The engine computes the
delays; this module only describes them.
"""
from __future__ import annotations

from typing import Any


class Exponential:
    """A delay that grows from attempt to attempt; made by `kopf.exponential()`."""

    __slots__ = ('factor', 'initial', 'jitter', 'max')

    def __init__(self, initial: float, factor: float, max: float | None, jitter: float) -> None:
        self.initial = initial
        self.factor = factor
        self.max = max
        self.jitter = jitter

    def __repr__(self) -> str:
        return (f'kopf.exponential({self.initial!r}, factor={self.factor!r}, '
                f'max={self.max!r}, jitter={self.jitter!r})')

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exponential) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def exponential(
        initial: float,
        factor: float = 2,
        max: float | None = None,
        jitter: float = 0,
) -> Exponential:
    """Make a backoff that grows with every failure: for ``backoff=`` of the decorators.

    Example::

        @kopf.on.create('kopfexamples', backoff=kopf.exponential(1, max=300, jitter=0.1))
        def create(**_):
            ...

    Args:
        initial: Seconds to wait after the first failure.
        factor: How much longer each next delay is.
        max: The longest delay, in seconds.
        jitter: A fraction (0 to 1) of the delay: a random part, up to this fraction, is added or
            subtracted, so that many failed objects do not return all at once.
    """
    for name, value in (('initial', initial), ('factor', factor), ('jitter', jitter)):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{name}= of an exponential backoff is a number, not {value!r}.")
    if max is not None and (isinstance(max, bool) or not isinstance(max, (int, float))):
        raise TypeError(f"max= of an exponential backoff is a number or None, not {max!r}.")
    if initial < 0 or factor < 1 or not 0 <= jitter <= 1 or (max is not None and max < 0):
        raise ValueError("An exponential backoff needs initial >= 0, factor >= 1, max >= 0, "
                         "and jitter from 0 to 1.")
    return Exponential(initial, factor, max, jitter)


def describe(backoff: float | Exponential | None) -> dict[str, Any] | None:
    """The backoff as data for the engine."""
    if backoff is None:
        return None
    if isinstance(backoff, Exponential):
        return {'initial': backoff.initial, 'factor': backoff.factor,
                'max': backoff.max, 'jitter': backoff.jitter}
    return {'constant': backoff}

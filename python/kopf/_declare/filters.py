"""Filters of handlers: markers for metadata and values, and combinators of callbacks.

The engine decides plain values and markers. Python evaluates only callbacks, and values that JSON
cannot represent exactly, at the request of the engine.
"""
from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from typing import Any


class MetaFilterToken(enum.Enum):
    """Whether a value is present at all."""

    PRESENT = enum.auto()
    ABSENT = enum.auto()


PRESENT = MetaFilterToken.PRESENT
ABSENT = MetaFilterToken.ABSENT


def not_(fn: Callable[..., bool]) -> Callable[..., bool]:
    """Negate a filter callback.

    Args:
        fn: The callback: a function of the kwargs, or of a value and the kwargs.
    """
    def not_fn(*args: Any, **kwargs: Any) -> bool:
        return not fn(*args, **kwargs)
    return not_fn


def all_(fns: Collection[Callable[..., bool]]) -> Callable[..., bool]:
    """Combine filter callbacks: all of them must return true.

    Example::

        @kopf.on.create('kopfexamples', when=kopf.all_([is_large, kopf.not_(is_test)]))

    Args:
        fns: The callbacks.
    """
    def all_fn(*args: Any, **kwargs: Any) -> bool:
        return all(fn(*args, **kwargs) for fn in fns)
    return all_fn


def any_(fns: Collection[Callable[..., bool]]) -> Callable[..., bool]:
    """Combine filter callbacks: at least one of them must return true.

    Args:
        fns: The callbacks.
    """
    def any_fn(*args: Any, **kwargs: Any) -> bool:
        return any(fn(*args, **kwargs) for fn in fns)
    return any_fn


def none_(fns: Collection[Callable[..., bool]]) -> Callable[..., bool]:
    """Combine filter callbacks: none of them may return true.

    Args:
        fns: The callbacks.
    """
    def none_fn(*args: Any, **kwargs: Any) -> bool:
        return not any(fn(*args, **kwargs) for fn in fns)
    return none_fn


def describe(criterion: Any) -> dict[str, Any] | None:
    """The filter as data for the engine; `None` is no filter."""
    if criterion is None:
        return None
    if criterion is PRESENT:
        return {'present': True}
    if criterion is ABSENT:
        return {'absent': True}
    if callable(criterion) or not _survives_json(criterion):
        return {'callback': True}
    return {'equals': criterion}


def describe_all(criteria: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The filters of labels or annotations as data for the engine."""
    if not criteria:
        return None
    return {key: describe(criterion) for key, criterion in criteria.items()}


def evaluate(criterion: Any, value: Any, present: bool, kwargs: Mapping[str, Any]) -> bool:
    """Evaluate a filter in Python; callbacks get absent values as `None`."""
    if criterion is None:
        return True
    if criterion is PRESENT:
        return present
    if criterion is ABSENT:
        return not present
    if callable(criterion):
        return bool(criterion(value, **kwargs))
    return present and bool(criterion == value)


def _survives_json(value: Any) -> bool:
    # Python compares floats: 1.0 == 1 here, but not for JSON numbers elsewhere.
    if value is None or isinstance(value, (str, bool, int)):
        return True
    if type(value) is list:
        return all(_survives_json(item) for item in value)
    if type(value) is dict:
        return all(isinstance(key, str) and _survives_json(item) for key, item in value.items())
    return False

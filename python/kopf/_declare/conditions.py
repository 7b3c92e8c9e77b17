"""Deciding `on.condition`: the filters that a function brings to all its change handlers.

A condition may be about another field than its handler, so it does not narrow the `old`,
`new` and `diff` of the handler. Therefore, it is decided here, as a part of `when=`.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kopf._declare.filters import evaluate
from kopf._objects.fields import resolve

if TYPE_CHECKING:
    from kopf._declare.handlers import Condition

_ABSENT = object()


def check(condition: Condition, kwargs: dict[str, Any], *, needs_change: bool = False) -> bool:
    """Whether the cause, as seen in its kwargs, fits the condition.

    Handlers of updates and of fields need a change of the field, not just the field itself.
    """
    if condition.selector is not None and not condition.selector.check(kwargs['resource']):
        return True  # it is about other resources
    for name in ('labels', 'annotations'):
        for key, criterion in (getattr(condition, name) or {}).items():
            value = kwargs[name].get(key, _ABSENT)
            if not _matches(criterion, value, kwargs):
                return False
    if condition.field:
        old = resolve(kwargs.get('old'), condition.field, _ABSENT)
        new = resolve(kwargs.get('new'), condition.field, _ABSENT)
        if needs_change and old == new:
            return False
        if condition.value is not None:
            if not any(_matches(condition.value, value, kwargs) for value in (new, old)):
                return False
        elif condition.old is None and condition.new is None:
            if old is _ABSENT and new is _ABSENT:
                return False
        elif not (_matches(condition.old, old, kwargs) and _matches(condition.new, new, kwargs)):
            return False
    return condition.when is None or bool(condition.when(**kwargs))


def _matches(criterion: Any, value: Any, kwargs: dict[str, Any]) -> bool:
    present = value is not _ABSENT
    return evaluate(criterion, value if present else None, present, kwargs)

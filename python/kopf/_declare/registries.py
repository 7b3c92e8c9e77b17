"""Registries: where the decorators put handlers, and where an operator takes them from.

Usually there is one, the default registry. Embedded operators and tests make their own.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kopf._declare.handlers import (
    Activity,
    ActivityHandler,
    ChangingHandler,
    Condition,
    Handler,
    IndexingHandler,
    SpawningHandler,
    WatchingHandler,
    WebhookHandler,
)
from kopf._errors import ErrorsMode

if TYPE_CHECKING:
    from kopf._connect.credentials import Vault

HandlerT = TypeVar('HandlerT', bound=Handler)


class HandlerList(Generic[HandlerT]):
    """The handlers of one class, in the order of their registration."""

    def __init__(self) -> None:
        self._handlers: list[HandlerT] = []

    def append(self, handler: HandlerT) -> None:
        self._handlers.append(handler)

    def get_all_handlers(self) -> Collection[HandlerT]:
        return list(self._handlers)


class ActivityRegistry(HandlerList[ActivityHandler]):
    """Activity handlers."""

    def get_handlers(self, activity: Activity) -> Collection[ActivityHandler]:
        """The handlers of an activity, or the fallback ones if there are no others."""
        suitable = [handler for handler in self._handlers if handler.activity in (None, activity)]
        primary = [handler for handler in suitable if not handler._fallback]
        return _unique(primary or suitable)


class IndexingRegistry(HandlerList[IndexingHandler]):
    """Indexing handlers."""


class WatchingRegistry(HandlerList[WatchingHandler]):
    """Event handlers."""


class SpawningRegistry(HandlerList[SpawningHandler]):
    """Daemons and timers."""


class ChangingRegistry(HandlerList[ChangingHandler]):
    """Change handlers; also the sub-handlers of one running handler."""


class WebhooksRegistry(HandlerList[WebhookHandler]):
    """Admission handlers."""


class OperatorRegistry:
    """All the handlers of an operator."""

    def __init__(self) -> None:
        self._activities = ActivityRegistry()
        self._indexing = IndexingRegistry()
        self._watching = WatchingRegistry()
        self._spawning = SpawningRegistry()
        self._changing = ChangingRegistry()
        self._webhooks = WebhooksRegistry()
        # By the identity of the function, which is kept, too, so that the identity stays unique.
        self._conditions: dict[int, tuple[Callable[..., Any], list[Condition]]] = {}

    def _add_condition(self, fn: Callable[..., Any], condition: Condition) -> None:
        _, conditions = self._conditions.setdefault(id(fn), (fn, []))
        conditions.append(condition)

    def _get_conditions(self, handler: Handler) -> Collection[Condition]:
        if not self._conditions or not isinstance(handler, ChangingHandler):
            return ()
        _, conditions = self._conditions.get(id(handler.fn), (None, ()))
        return conditions

    def _get_logins(self) -> Collection[ActivityHandler]:
        """The login handlers of an operator that starts now."""
        return self._activities.get_handlers(Activity.AUTHENTICATION)


class SmartOperatorRegistry(OperatorRegistry):
    """A registry that finds a way to log in if there are no login handlers."""

    def _get_logins(self) -> Collection[ActivityHandler]:
        from kopf._connect import logins
        declared = super()._get_logins()
        if declared:
            return declared
        return [
            ActivityHandler(
                id=fn.__name__, fn=fn, activity=Activity.AUTHENTICATION,
                errors=ErrorsMode.IGNORED, _fallback=True,
            )
            for fn in logins.choose_fallbacks()
        ]


def make_logins(vault: Vault) -> list[ActivityHandler]:
    """Login handlers that return the ready-made credentials of an embedded operator."""
    def login(info: Any) -> Callable[..., Any]:
        return lambda **_: info
    return [ActivityHandler(id=key, fn=login(info), activity=Activity.AUTHENTICATION)
            for key, info in vault.get_infos().items()]


def generate_id(
        fn: Callable[..., Any],
        id: str | None,
        prefix: str | None = None,
        suffix: str | None = None,
) -> str:
    """The id of a handler: as given or from the function, under its parent, with its field."""
    own = id if id is not None else get_callable_id(fn)
    return '/'.join(part for part in (prefix, own, suffix) if part)


def get_callable_id(fn: Callable[..., Any] | None) -> str:
    """A name of a callable that is the same in every run of the operator."""
    if fn is None:
        raise ValueError("None is not a function: it cannot have an id.")
    if isinstance(fn, functools.partial):
        return get_callable_id(fn.func)
    if hasattr(fn, '__wrapped__'):
        return get_callable_id(fn.__wrapped__)  # type: ignore[attr-defined]
    if isinstance(fn, FunctionType) and fn.__name__ == '<lambda>':
        return f'lambda:{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}'
    if isinstance(fn, (FunctionType, MethodType)):
        return str(getattr(fn, '__qualname__', None) or getattr(fn, '__name__', repr(fn)))
    raise ValueError(f"Cannot make an id of {fn!r}: give it with id=.")


def _unique(handlers: Collection[HandlerT]) -> Collection[HandlerT]:
    unique: dict[tuple[int, str], HandlerT] = {}
    for handler in handlers:
        unique.setdefault((id(handler.fn), handler.id), handler)
    return list(unique.values())


_default_registry: OperatorRegistry | None = None


def get_default_registry() -> OperatorRegistry:
    """Return the registry that decorators and operators use unless they are given another one."""
    global _default_registry
    if _default_registry is None:
        _default_registry = SmartOperatorRegistry()
    return _default_registry


def set_default_registry(registry: OperatorRegistry) -> None:
    """Replace the registry that decorators and operators use unless they are given another one.

    Args:
        registry: The new registry.
    """
    global _default_registry
    _default_registry = registry

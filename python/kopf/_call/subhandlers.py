"""Children of a handler: added by `@kopf.subhandler` and `kopf.register`, run by `kopf.execute`.

The engine runs them as it runs all handlers, one round at a time. If some are left after
the round, the parent is to be called again later: `HandlerChildrenRetry`.
"""
from __future__ import annotations

import collections.abc
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kopf._call.context import handler_var, invocation_var
from kopf._declare.handlers import ChangingHandler, Handler
from kopf._declare.registries import ChangingRegistry, generate_id
from kopf._errors import HandlerChildrenRetry

if TYPE_CHECKING:
    from kopf.lifecycles import LifeCycleFn


def get_parent() -> tuple[Handler, ChangingRegistry]:
    """The handler that runs now, and its children so far."""
    return handler_var.get(), invocation_var.get().children


async def execute(
        *,
        fns: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]] | None = None,
        handlers: Iterable[ChangingHandler] | None = None,
        registry: ChangingRegistry | None = None,
        lifecycle: LifeCycleFn | None = None,
        cause: Any = None,
) -> None:
    """Run the children of the current handler now, rather than after it returns.

    Without arguments, these are the children added by `@kopf.subhandler` and `kopf.register`,
    and they are run only once. Or else, they are functions (a list or a mapping by ids),
    or ready-made handlers, or a registry of such.
    """
    if sum(source is not None for source in (fns, handlers, registry)) > 1:
        raise TypeError("Only one of the fns, handlers, registry can be passed. Got more.")
    invocation = invocation_var.get()
    parent = handler_var.get()
    children: list[ChangingHandler]
    if fns is not None:
        named: list[tuple[Any, Any]]
        if isinstance(fns, collections.abc.Mapping):
            named = list(fns.items())
        elif isinstance(fns, collections.abc.Iterable):
            named = [(None, fn) for fn in fns]
        else:
            raise ValueError(f"fns must be a mapping or an iterable, got {fns.__class__}.")
        children = [ChangingHandler(fn=fn, id=generate_id(fn, id, prefix=parent.id))
                    for id, fn in named]
    elif handlers is not None:
        children = list(handlers)
    elif registry is not None:
        children = list(registry.get_all_handlers())
    elif invocation.executed:
        return
    else:
        invocation.executed = True
        children = list(invocation.children.get_all_handlers())
    if not isinstance(parent, ChangingHandler):
        raise RuntimeError("Sub-handlers are only supported for handlers of changes: "
                           "others have neither retries nor a stored state.")
    if children:
        done, delay = await invocation.run_round(children, lifecycle)
        if not done:
            raise HandlerChildrenRetry(delay=delay)

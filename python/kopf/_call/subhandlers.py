"""Children of a handler: added by `@kopf.subhandler` and `kopf.register`, run by `kopf.execute`.

The engine calls them as it calls all handlers, one batch at a time. If some have not finished after
the batch, it calls the parent again later: `HandlerChildrenRetry`.
"""
from __future__ import annotations

import collections.abc
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kopf._call.context import handler_var, invocation_var
from kopf._declare.decorators.building import (
    Callback,
    Fn,
    MetaFilter,
    ValueFilter,
    get_behaviour,
    verify_filters,
)
from kopf._declare.handlers import ChangingHandler, Handler, Reason
from kopf._declare.registries import ChangingRegistry, generate_id
from kopf._errors import HandlerChildrenRetry
from kopf._objects.fields import parse_field

if TYPE_CHECKING:
    from kopf._declare.decorators.building import Backoff
    from kopf._errors import ErrorsMode
    from kopf._objects.fields import FieldSpec
    from kopf.lifecycles import LifeCycleFn


def subhandler(
        *,
        id: str | None = None,
        param: Any | None = None,
        errors: ErrorsMode | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        backoff: Backoff = None,
        labels: MetaFilter | None = None,
        annotations: MetaFilter | None = None,
        when: Callback | None = None,
        field: FieldSpec = None,
        value: ValueFilter = None,
        old: ValueFilter = None,
        new: ValueFilter = None,
        concurrency: int | None = None,
) -> Callable[[Fn], Fn]:
    """Add a child to the change handler that is running.

    Kopf calls the children after the parent returns, or when it awaits `kopf.execute`. Each has its
    own retries and errors. Kopf calls the parent again until all children have finished; every
    time, the parent must add the same children. Their ids follow that of the parent: here,
    ``create/<task>``.

    Example::

        @kopf.on.create('kopfexamples')
        def create(spec, **_):
            for task in spec.get('tasks', []):

                @kopf.subhandler(id=task)
                def create_task(task=task, **_):  # `task=task` keeps the value of the loop
                    ...

    Args:
        id: The name of the child, below that of its parent. By default, the name of the function.
        param: A value for the function, as its kwarg ``param``. It tells apart several handlers of
            one function.
        errors: What an exception means that is neither a `kopf.TemporaryError` nor a
            `kopf.PermanentError`: ``kopf.ErrorsMode.TEMPORARY`` (retry; the default), ``PERMANENT``
            (fail for good) or ``IGNORED`` (log it and go on).
        timeout: Fail for good this many seconds after the first attempt.
        retries: Fail for good after this number of attempts.
        backoff: Seconds to wait after such an exception, or `kopf.exponential`. By default,
            ``settings.execution.default_backoff``: 60 seconds.
        labels, annotations: Select only objects with these. For each key: a value, `kopf.PRESENT`,
            `kopf.ABSENT`, or a function that gets the value and the kwargs.
        when: Select only if this function of the kwargs returns true.
        field: Select only objects with this field, as in ``'spec.size'``. The kwargs ``old``,
            ``new`` and ``diff`` are then those of the field.
        value: Select only if the field has this value, before or after the change; the same forms
            as for ``labels``.
        old, new: Select only if the field had this value before, has this value after the change;
            the same forms as for ``labels``. Not together with ``value``.
        concurrency: Limit how many calls of this handler run at a time, for all objects together.
    """
    params = locals()

    def decorator(fn: Fn) -> Fn:
        parent, children = get_parent()
        if not isinstance(parent, ChangingHandler):
            raise TypeError("Sub-handlers are only supported for handlers of changes.")
        if old is not None or new is not None:
            on_field = parent.reason is None and not parent.initial
            if parent.reason != Reason.UPDATE and not on_field:
                raise TypeError("Filters old=/new= can only be used in update handlers.")
        verify_filters(params)
        children.append(ChangingHandler(
            fn=fn, id=generate_id(fn, id, prefix=parent.id), **get_behaviour(params),
            labels=labels, annotations=annotations, when=when,
            field=parse_field(field) or None, value=value, old=old, new=new,
            field_needs_change=parent.field_needs_change, concurrency=concurrency,
        ))
        return fn
    return decorator


def register(
        fn: Fn,
        *,
        id: str | None = None,
        param: Any | None = None,
        errors: ErrorsMode | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        backoff: Backoff = None,
        labels: MetaFilter | None = None,
        annotations: MetaFilter | None = None,
        when: Callback | None = None,
        concurrency: int | None = None,
) -> Fn:
    """Add a child to the change handler that is running: `kopf.subhandler` as a plain call.

    Example::

        @kopf.on.create('kopfexamples')
        def create(spec, **_):
            for task in spec.get('tasks', []):
                kopf.register(functools.partial(create_task, task=task), id=task)

    Args:
        fn: The function.
        id: The name of the child, below that of its parent. By default, the name of the function.
        param: A value for the function, as its kwarg ``param``. It tells apart several handlers of
            one function.
        errors: What an exception means that is neither a `kopf.TemporaryError` nor a
            `kopf.PermanentError`: ``kopf.ErrorsMode.TEMPORARY`` (retry; the default), ``PERMANENT``
            (fail for good) or ``IGNORED`` (log it and go on).
        timeout: Fail for good this many seconds after the first attempt.
        retries: Fail for good after this number of attempts.
        backoff: Seconds to wait after such an exception, or `kopf.exponential`. By default,
            ``settings.execution.default_backoff``: 60 seconds.
        labels, annotations: Select only objects with these. For each key: a value, `kopf.PRESENT`,
            `kopf.ABSENT`, or a function that gets the value and the kwargs.
        when: Select only if this function of the kwargs returns true.
        concurrency: Limit how many calls of this handler run at a time, for all objects together.
    """
    decorator: Callable[[Fn], Fn] = subhandler(
        id=id, param=param, errors=errors, timeout=timeout, retries=retries, backoff=backoff,
        labels=labels, annotations=annotations, when=when, concurrency=concurrency,
    )
    return decorator(fn)


async def execute(
        *,
        fns: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]] | None = None,
        handlers: Iterable[ChangingHandler] | None = None,
        registry: ChangingRegistry | None = None,
        lifecycle: LifeCycleFn | None = None,
        cause: Any = None,
) -> None:
    """Call the children of the running change handler now, instead of after it returns.

    If some children have not finished, this raises an error that makes Kopf call the parent again
    later: let it pass.

    Example::

        @kopf.on.create('kopfexamples')
        async def create(spec, **_):
            await kopf.execute(fns={'disk': create_disk, 'network': create_network})

    Args:
        fns: Functions to call as children: a collection, or a mapping of ids to functions.
        handlers: Ready-made handlers to call as children.
        registry: A registry of handlers to call as children. Without `fns`, `handlers` and
            `registry`, Kopf calls those added by `kopf.subhandler` and `kopf.register`, once.
        lifecycle: Which of the children to call in one batch: see `kopf.lifecycles`.
        cause: Ignored; kopf 1.45 had it.
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
        done, delay = await invocation.run_sub_batch(children, lifecycle)
        if not done:
            raise HandlerChildrenRetry(delay=delay)


def get_parent() -> tuple[Handler, ChangingRegistry]:
    """The handler that runs now, and its children so far."""
    return handler_var.get(), invocation_var.get().children

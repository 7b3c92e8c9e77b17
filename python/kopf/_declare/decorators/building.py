"""How a decorator makes a handler of its parameters, and puts it into a registry.

A decorator returns the function unchanged, so that users can call it, test it, and decorate it
again.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from kopf._declare.handlers import (
    Activity,
    ActivityHandler,
    ChangingHandler,
    ResourceHandler,
    WebhookHandler,
    WebhookType,
)
from kopf._declare.registries import OperatorRegistry, generate_id, get_default_registry
from kopf._objects.fields import parse_field
from kopf._objects.resources import Marker, Resource, Selector

if TYPE_CHECKING:
    from kopf._declare.backoff import Exponential

    Backoff = float | Exponential | None

Fn = TypeVar('Fn', bound=Callable[..., Any])
Callback = Callable[..., bool]
ResourceArg = str | Marker | Callable[[Resource], bool] | None
NameArg = str | Marker | None
MetaFilter = Mapping[str, Any]
ValueFilter = Any


def add_activity(params: Mapping[str, Any], activity: Activity) -> Callable[[Fn], Fn]:
    def decorator(fn: Fn) -> Fn:
        get_registry(params)._activities.append(ActivityHandler(
            fn=fn, id=generate_id(fn, params['id']), activity=activity, **get_behaviour(params),
        ))
        return fn
    return decorator


def add_changing(params: Mapping[str, Any], **specific: Any) -> Callable[[Fn], Fn]:
    return add_resource(
        params, ChangingHandler, '_changing',
        **{'old': params.get('old'), 'new': params.get('new'), 'field_needs_change': False,
           **specific},
    )


def add_webhook(
        params: Mapping[str, Any],
        type: WebhookType,
        **specific: Any,
) -> Callable[[Fn], Fn]:
    operations = params['operations']
    if params['operation'] is not None:
        import warnings
        warnings.warn("operation= is deprecated, use operations={...}.",
                      DeprecationWarning, stacklevel=3)
        operations = frozenset([*(operations or ()), params['operation']])
    if operations is not None and not operations:
        raise ValueError(f"Operations should be either None or non-empty. Got {operations!r}.")
    return add_resource(
        params, WebhookHandler, '_webhooks', reason=type, operations=operations,
        **{name: params[name] for name in (
            'subresource', 'persistent', 'side_effects', 'ignore_failures')},
        **specific,
    )


def add_resource(
        params: Mapping[str, Any],
        cls: type[ResourceHandler],
        place: str,
        *,
        field_in_id: bool = True,
        **specific: Any,
) -> Callable[[Fn], Fn]:
    def decorator(fn: Fn) -> Fn:
        verify_filters(params)
        field = parse_field(params['field']) or None
        suffix = '.'.join(field) if field and field_in_id else None
        getattr(get_registry(params), place).append(cls(
            fn=fn, id=generate_id(fn, params['id'], suffix=suffix), **get_behaviour(params),
            selector=get_selector(params),
            labels=params['labels'], annotations=params['annotations'], when=params['when'],
            field=field, value=params['value'], concurrency=params.get('concurrency'),
            **specific,
        ))
        return fn
    return decorator


def get_registry(params: Mapping[str, Any]) -> OperatorRegistry:
    registry = params['registry']
    return registry if registry is not None else get_default_registry()


def get_selector(params: Mapping[str, Any]) -> Selector:
    names = ('group', 'version', 'kind', 'plural', 'singular', 'shortcut', 'category')
    return Selector(params['arg1'], params['arg2'], params['arg3'],
                    **{name: params[name] for name in names})


def get_behaviour(params: Mapping[str, Any]) -> dict[str, Any]:
    concurrency = params.get('concurrency')
    if concurrency is not None:
        if isinstance(concurrency, bool) or not isinstance(concurrency, int):
            raise TypeError(f"concurrency= is a number of calls, not {concurrency!r}.")
        if concurrency < 1:
            raise ValueError(f"concurrency= must be at least 1, not {concurrency!r}.")
    return {name: params.get(name)
            for name in ('param', 'errors', 'timeout', 'retries', 'backoff')}


def verify_filters(params: Mapping[str, Any]) -> None:
    field, value = params['field'], params['value']
    old, new = params.get('old'), params.get('new')
    changed = old is not None or new is not None
    if field is None and (value is not None or changed):
        raise TypeError("Value/old/new filters are specified without a mandatory field.")
    if value is not None and changed:
        raise TypeError("Either value= or old=/new= can be defined, not both.")
    for name in ('labels', 'annotations'):
        for key, criterion in (params[name] or {}).items():
            if criterion is None:
                raise ValueError(f"`None` for {name[:-1]} filters is not supported ({key!r}); "
                                 f"use kopf.PRESENT or kopf.ABSENT.")

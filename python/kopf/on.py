"""The decorators: `@kopf.on.create(…)`, `@kopf.on.event(…)`, and all the others.

A decorator puts a handler into a registry and gives the function back as it was, so that
it can be called, tested and decorated again::

    @kopf.on.create('kopfexamples')
    @kopf.on.resume('kopfexamples')
    def handle(spec, **_): ...

The parameters are spelled out in every decorator, for editors and type checkers. They are
passed on as `locals()`, so that none can be forgotten on the way.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from kopf._declare.handlers import (
    Activity,
    ActivityHandler,
    ChangingHandler,
    Condition,
    DaemonHandler,
    IndexingHandler,
    Reason,
    ResourceHandler,
    TimerHandler,
    WatchingHandler,
    WebhookHandler,
    WebhookType,
)
from kopf._declare.registries import OperatorRegistry, generate_id, get_default_registry
from kopf._objects.fields import parse_field
from kopf._objects.resources import Marker, Resource, Selector

if TYPE_CHECKING:
    from kopf._declare.backoff import Exponential
    from kopf._errors import ErrorsMode
    from kopf._objects.fields import FieldSpec
    from kopf._objects.typedefs import Operation

_Fn = TypeVar('_Fn', bound=Callable[..., Any])
Callback = Callable[..., bool]
ResourceArg = str | Marker | Callable[[Resource], bool] | None
NameArg = str | Marker | None
MetaFilter = Mapping[str, Any]
ValueFilter = Any
if TYPE_CHECKING:
    Backoff = float | Exponential | None


def startup(
        *,
        id: str | None = None,
        param: Any | None = None,
        errors: ErrorsMode | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        backoff: Backoff = None,
        registry: OperatorRegistry | None = None,
) -> Callable[[_Fn], _Fn]:
    """Call the function when the operator starts, before anything else."""
    return _activity(locals(), Activity.STARTUP)


def cleanup(
        *,
        id: str | None = None,
        param: Any | None = None,
        errors: ErrorsMode | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        backoff: Backoff = None,
        registry: OperatorRegistry | None = None,
) -> Callable[[_Fn], _Fn]:
    """Call the function when the operator stops, after everything else."""
    return _activity(locals(), Activity.CLEANUP)


def login(
        *,
        id: str | None = None,
        param: Any | None = None,
        errors: ErrorsMode | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        backoff: Backoff = None,
        registry: OperatorRegistry | None = None,
) -> Callable[[_Fn], _Fn]:
    """Call the function for credentials: at the start, and when they are no longer accepted."""
    return _activity(locals(), Activity.AUTHENTICATION)


def probe(
        *,
        id: str | None = None,
        param: Any | None = None,
        errors: ErrorsMode | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        backoff: Backoff = None,
        registry: OperatorRegistry | None = None,
) -> Callable[[_Fn], _Fn]:
    """Call the function for a value to be shown at the liveness endpoint."""
    return _activity(locals(), Activity.PROBE)


def event(
        arg1: ResourceArg = None,
        arg2: NameArg = None,
        arg3: NameArg = None,
        /,
        *,
        group: str | None = None,
        version: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        shortcut: str | None = None,
        category: str | None = None,
        id: str | None = None,
        param: Any | None = None,
        labels: MetaFilter | None = None,
        annotations: MetaFilter | None = None,
        when: Callback | None = None,
        field: FieldSpec = None,
        value: ValueFilter = None,
        registry: OperatorRegistry | None = None,
        concurrency: int | None = None,
) -> Callable[[_Fn], _Fn]:
    """Call the function for every event of the objects, with no retries and no memory of it."""
    return _resource(locals(), WatchingHandler, '_watching')


def create(
        arg1: ResourceArg = None,
        arg2: NameArg = None,
        arg3: NameArg = None,
        /,
        *,
        group: str | None = None,
        version: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        shortcut: str | None = None,
        category: str | None = None,
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
        registry: OperatorRegistry | None = None,
        concurrency: int | None = None,
) -> Callable[[_Fn], _Fn]:
    """Call the function once for each new object."""
    return _changing(locals(), reason=Reason.CREATE)


def update(
        arg1: ResourceArg = None,
        arg2: NameArg = None,
        arg3: NameArg = None,
        /,
        *,
        group: str | None = None,
        version: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        shortcut: str | None = None,
        category: str | None = None,
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
        registry: OperatorRegistry | None = None,
        concurrency: int | None = None,
) -> Callable[[_Fn], _Fn]:
    """Call the function when an object changes."""
    return _changing(locals(), reason=Reason.UPDATE, field_needs_change=True)


def delete(
        arg1: ResourceArg = None,
        arg2: NameArg = None,
        arg3: NameArg = None,
        /,
        *,
        group: str | None = None,
        version: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        shortcut: str | None = None,
        category: str | None = None,
        id: str | None = None,
        param: Any | None = None,
        errors: ErrorsMode | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        backoff: Backoff = None,
        optional: bool | None = None,
        labels: MetaFilter | None = None,
        annotations: MetaFilter | None = None,
        when: Callback | None = None,
        field: FieldSpec = None,
        value: ValueFilter = None,
        registry: OperatorRegistry | None = None,
        concurrency: int | None = None,
) -> Callable[[_Fn], _Fn]:
    """Call the function when an object is deleted; the deletion waits for it unless optional."""
    return _changing(locals(), reason=Reason.DELETE, requires_finalizer=not optional)


def resume(
        arg1: ResourceArg = None,
        arg2: NameArg = None,
        arg3: NameArg = None,
        /,
        *,
        group: str | None = None,
        version: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        shortcut: str | None = None,
        category: str | None = None,
        id: str | None = None,
        param: Any | None = None,
        errors: ErrorsMode | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        backoff: Backoff = None,
        deleted: bool | None = None,
        labels: MetaFilter | None = None,
        annotations: MetaFilter | None = None,
        when: Callback | None = None,
        field: FieldSpec = None,
        value: ValueFilter = None,
        registry: OperatorRegistry | None = None,
        concurrency: int | None = None,
) -> Callable[[_Fn], _Fn]:
    """Call the function for each object that exists when the operator starts."""
    return _changing(locals(), initial=True, deleted=deleted)


def field(
        arg1: ResourceArg = None,
        arg2: NameArg = None,
        arg3: NameArg = None,
        /,
        *,
        group: str | None = None,
        version: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        shortcut: str | None = None,
        category: str | None = None,
        id: str | None = None,
        param: Any | None = None,
        errors: ErrorsMode | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        backoff: Backoff = None,
        labels: MetaFilter | None = None,
        annotations: MetaFilter | None = None,
        when: Callback | None = None,
        field: FieldSpec,
        value: ValueFilter = None,
        old: ValueFilter = None,
        new: ValueFilter = None,
        registry: OperatorRegistry | None = None,
        concurrency: int | None = None,
) -> Callable[[_Fn], _Fn]:
    """Call the function when a field changes, appears or goes, in new and in old objects."""
    return _changing(locals(), field_needs_change=True)


def validate(
        arg1: ResourceArg = None,
        arg2: NameArg = None,
        arg3: NameArg = None,
        /,
        *,
        group: str | None = None,
        version: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        shortcut: str | None = None,
        category: str | None = None,
        id: str | None = None,
        param: Any | None = None,
        operation: Operation | None = None,
        operations: Collection[Operation] | None = None,
        subresource: str | None = None,
        persistent: bool | None = None,
        side_effects: bool | None = None,
        ignore_failures: bool | None = None,
        labels: MetaFilter | None = None,
        annotations: MetaFilter | None = None,
        when: Callback | None = None,
        field: FieldSpec = None,
        value: ValueFilter = None,
        registry: OperatorRegistry | None = None,
        concurrency: int | None = None,
) -> Callable[[_Fn], _Fn]:
    """Call the function to accept or refuse a change before it is made."""
    return _webhook(locals(), WebhookType.VALIDATING)


def mutate(
        arg1: ResourceArg = None,
        arg2: NameArg = None,
        arg3: NameArg = None,
        /,
        *,
        group: str | None = None,
        version: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        shortcut: str | None = None,
        category: str | None = None,
        id: str | None = None,
        param: Any | None = None,
        operation: Operation | None = None,
        operations: Collection[Operation] | None = None,
        subresource: str | None = None,
        persistent: bool | None = None,
        side_effects: bool | None = None,
        ignore_failures: bool | None = None,
        labels: MetaFilter | None = None,
        annotations: MetaFilter | None = None,
        when: Callback | None = None,
        field: FieldSpec = None,
        value: ValueFilter = None,
        registry: OperatorRegistry | None = None,
        concurrency: int | None = None,
) -> Callable[[_Fn], _Fn]:
    """Call the function to adjust a change before it is made."""
    return _webhook(locals(), WebhookType.MUTATING)


def convert(
        arg1: ResourceArg = None,
        arg2: NameArg = None,
        /,
        *,
        from_: str,
        to: str,
        group: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        shortcut: str | None = None,
        id: str | None = None,
        param: Any | None = None,
        persistent: bool | None = None,
        registry: OperatorRegistry | None = None,
        concurrency: int | None = None,
) -> Callable[[_Fn], _Fn]:
    """Call the function to turn custom resources of one version into those of another one.

    The function either returns the whole new object, or changes the old one by its `patch`. Where
    there is no function for two versions, the shortest chain of functions is called.
    """
    if not from_ or not to or from_ == to:
        raise ValueError(f"A conversion is from one version to another one, "
                         f"not from {from_!r} to {to!r}.")
    params = {
        **locals(), 'arg3': None, 'version': None, 'category': None, 'operation': None,
        'operations': None, 'subresource': None, 'side_effects': None, 'ignore_failures': None,
        'labels': None, 'annotations': None, 'when': None, 'field': None, 'value': None,
    }
    return _webhook(params, WebhookType.CONVERTING, from_version=from_, to_version=to)


def index(
        arg1: ResourceArg = None,
        arg2: NameArg = None,
        arg3: NameArg = None,
        /,
        *,
        group: str | None = None,
        version: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        shortcut: str | None = None,
        category: str | None = None,
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
        registry: OperatorRegistry | None = None,
        concurrency: int | None = None,
) -> Callable[[_Fn], _Fn]:
    """Keep what the function returns for each object in an index, a kwarg of all handlers."""
    return _resource(locals(), IndexingHandler, '_indexing', field_in_id=False)


def daemon(
        arg1: ResourceArg = None,
        arg2: NameArg = None,
        arg3: NameArg = None,
        /,
        *,
        group: str | None = None,
        version: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        shortcut: str | None = None,
        category: str | None = None,
        id: str | None = None,
        param: Any | None = None,
        errors: ErrorsMode | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        backoff: Backoff = None,
        initial_delay: float | Callable[..., float] | None = None,
        cancellation_backoff: float | None = None,
        cancellation_timeout: float | None = None,
        cancellation_polling: float | None = None,
        labels: MetaFilter | None = None,
        annotations: MetaFilter | None = None,
        when: Callback | None = None,
        field: FieldSpec = None,
        value: ValueFilter = None,
        registry: OperatorRegistry | None = None,
        concurrency: int | None = None,
) -> Callable[[_Fn], _Fn]:
    """Run the function in the background for as long as the object exists."""
    return _resource(
        locals(), DaemonHandler, '_spawning', requires_finalizer=True,
        initial_delay=initial_delay, cancellation_backoff=cancellation_backoff,
        cancellation_timeout=cancellation_timeout, cancellation_polling=cancellation_polling,
    )


def timer(
        arg1: ResourceArg = None,
        arg2: NameArg = None,
        arg3: NameArg = None,
        /,
        *,
        group: str | None = None,
        version: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        shortcut: str | None = None,
        category: str | None = None,
        id: str | None = None,
        param: Any | None = None,
        errors: ErrorsMode | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        backoff: Backoff = None,
        interval: float | None = None,
        initial_delay: float | Callable[..., float] | None = None,
        sharp: bool | None = None,
        idle: float | None = None,
        labels: MetaFilter | None = None,
        annotations: MetaFilter | None = None,
        when: Callback | None = None,
        field: FieldSpec = None,
        value: ValueFilter = None,
        registry: OperatorRegistry | None = None,
        concurrency: int | None = None,
) -> Callable[[_Fn], _Fn]:
    """Call the function at intervals for as long as the object exists."""
    return _resource(
        locals(), TimerHandler, '_spawning', requires_finalizer=True,
        initial_delay=initial_delay, interval=interval, sharp=sharp, idle=idle,
    )



def condition(
        arg1: ResourceArg = None,
        arg2: NameArg = None,
        arg3: NameArg = None,
        /,
        *,
        group: str | None = None,
        version: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        shortcut: str | None = None,
        category: str | None = None,
        labels: MetaFilter | None = None,
        annotations: MetaFilter | None = None,
        when: Callback | None = None,
        field: FieldSpec = None,
        value: ValueFilter = None,
        old: ValueFilter = None,
        new: ValueFilter = None,
        registry: OperatorRegistry | None = None,
) -> Callable[[_Fn], _Fn]:
    """Add a filter to all the change handlers of the same function, above or below this one.

    With a selector, the filter is only for the objects of these resources. Several
    conditions of a function must all be true::

        @kopf.on.condition('kopfexamples', field='spec.enabled', value=True)
        @kopf.on.create('kopfexamples')
        @kopf.on.update('kopfexamples')
        def handle(spec, **_): ...
    """
    names = (arg1, arg2, arg3, group, version, kind, plural, singular, shortcut, category)
    params = locals()
    _verify_filters(params)

    def decorator(fn: _Fn) -> _Fn:
        _get_registry(params)._add_condition(fn, Condition(
            selector=_get_selector(params) if any(name is not None for name in names) else None,
            labels=labels, annotations=annotations, when=when,
            field=parse_field(field) or None, value=value, old=old, new=new,
        ))
        return fn
    return decorator


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
) -> Callable[[_Fn], _Fn]:
    """Add a child to the handler that runs now; used inside of change handlers.

    The children are called after the parent returns, or when it calls `kopf.execute()`.
    Each has its own retries and errors. The parent is called again, and has to add the same
    children again, until all of them are finished::

        @kopf.on.create('kopfexamples')
        def create(spec, **_):
            for task in spec.get('tasks', []):

                @kopf.subhandler(id=task)
                def create_task(task=task, **_): ...

    The ids here are `create/<task>`. Mind `task=task`, which keeps the value of the loop.
    """
    params = locals()

    def decorator(fn: _Fn) -> _Fn:
        from kopf._call import subhandlers
        parent, children = subhandlers.get_parent()
        if not isinstance(parent, ChangingHandler):
            raise TypeError("Sub-handlers are only supported for handlers of changes.")
        if old is not None or new is not None:
            on_field = parent.reason is None and not parent.initial
            if parent.reason != Reason.UPDATE and not on_field:
                raise TypeError("Filters old=/new= can only be used in update handlers.")
        _verify_filters(params)
        children.append(ChangingHandler(
            fn=fn, id=generate_id(fn, id, prefix=parent.id), **_get_behaviour(params),
            labels=labels, annotations=annotations, when=when,
            field=parse_field(field) or None, value=value, old=old, new=new,
            field_needs_change=parent.field_needs_change, concurrency=concurrency,
        ))
        return fn
    return decorator


def register(
        fn: _Fn,
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
) -> _Fn:
    """Add a child to the handler that runs now: `@kopf.subhandler(…)` as a plain call."""
    decorator: Callable[[_Fn], _Fn] = subhandler(
        id=id, param=param, errors=errors, timeout=timeout, retries=retries, backoff=backoff,
        labels=labels, annotations=annotations, when=when, concurrency=concurrency,
    )
    return decorator(fn)


def _activity(params: Mapping[str, Any], activity: Activity) -> Callable[[_Fn], _Fn]:
    def decorator(fn: _Fn) -> _Fn:
        _get_registry(params)._activities.append(ActivityHandler(
            fn=fn, id=generate_id(fn, params['id']), activity=activity, **_get_behaviour(params),
        ))
        return fn
    return decorator


def _changing(params: Mapping[str, Any], **specific: Any) -> Callable[[_Fn], _Fn]:
    return _resource(
        params, ChangingHandler, '_changing',
        **{'old': params.get('old'), 'new': params.get('new'), 'field_needs_change': False,
           **specific},
    )


def _webhook(
        params: Mapping[str, Any],
        type: WebhookType,
        **specific: Any,
) -> Callable[[_Fn], _Fn]:
    operations = params['operations']
    if params['operation'] is not None:
        import warnings
        warnings.warn("operation= is deprecated, use operations={...}.",
                      DeprecationWarning, stacklevel=3)
        operations = frozenset([*(operations or ()), params['operation']])
    if operations is not None and not operations:
        raise ValueError(f"Operations should be either None or non-empty. Got {operations!r}.")
    return _resource(
        params, WebhookHandler, '_webhooks', reason=type, operations=operations,
        **{name: params[name] for name in (
            'subresource', 'persistent', 'side_effects', 'ignore_failures')},
        **specific,
    )


def _resource(
        params: Mapping[str, Any],
        cls: type[ResourceHandler],
        place: str,
        *,
        field_in_id: bool = True,
        **specific: Any,
) -> Callable[[_Fn], _Fn]:
    def decorator(fn: _Fn) -> _Fn:
        _verify_filters(params)
        field = parse_field(params['field']) or None
        suffix = '.'.join(field) if field and field_in_id else None
        getattr(_get_registry(params), place).append(cls(
            fn=fn, id=generate_id(fn, params['id'], suffix=suffix), **_get_behaviour(params),
            selector=_get_selector(params),
            labels=params['labels'], annotations=params['annotations'], when=params['when'],
            field=field, value=params['value'], concurrency=params.get('concurrency'),
            **specific,
        ))
        return fn
    return decorator


def _get_registry(params: Mapping[str, Any]) -> OperatorRegistry:
    registry = params['registry']
    return registry if registry is not None else get_default_registry()


def _get_selector(params: Mapping[str, Any]) -> Selector:
    names = ('group', 'version', 'kind', 'plural', 'singular', 'shortcut', 'category')
    return Selector(params['arg1'], params['arg2'], params['arg3'],
                    **{name: params[name] for name in names})


def _get_behaviour(params: Mapping[str, Any]) -> dict[str, Any]:
    concurrency = params.get('concurrency')
    if concurrency is not None:
        if isinstance(concurrency, bool) or not isinstance(concurrency, int):
            raise TypeError(f"concurrency= is a number of calls, not {concurrency!r}.")
        if concurrency < 1:
            raise ValueError(f"concurrency= must be at least 1, not {concurrency!r}.")
    return {name: params.get(name)
            for name in ('param', 'errors', 'timeout', 'retries', 'backoff')}


def _verify_filters(params: Mapping[str, Any]) -> None:
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

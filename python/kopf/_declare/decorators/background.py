"""Decorators for what runs in the background of each object: daemons and timers."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kopf._declare.decorators.building import (
    Callback,
    Fn,
    MetaFilter,
    NameArg,
    ResourceArg,
    ValueFilter,
    add_resource,
)
from kopf._declare.handlers import DaemonHandler, TimerHandler

if TYPE_CHECKING:
    from kopf._declare.decorators.building import Backoff
    from kopf._declare.registries import OperatorRegistry
    from kopf._errors import ErrorsMode
    from kopf._objects.fields import FieldSpec


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
) -> Callable[[Fn], Fn]:
    """Run the function in the background for as long as the object exists and matches.

    The function gets ``stopped``, and must exit soon after that becomes true. Its views (``spec``,
    ``status`` etc.) always show the latest state. Synchronous daemons run in their own threads.

    Example::

        @kopf.daemon('databases')
        async def monitor(stopped, spec, patch, **_):
            while not stopped:
                patch.status['alive'] = await ping(spec['address'])
                await stopped.wait(10)

    Args:
        arg1, arg2, arg3: The resource: its plural, singular, kind or short name, as in ``'pods'``;
            with the group, and maybe the version, before it: ``'apps', 'deployments'``, ``'apps',
            'v1', 'deployments'``; or in one string: ``'deployments.v1.apps'``. `kopf.EVERYTHING`
            selects all resources except events; a function of a `kopf.Resource` selects those for
            which it returns true.
        group, version: Select only resources of this group, of this version (by default, the
            preferred one).
        kind, plural, singular, shortcut, category: Select by this kind of name only, instead of the
            positional names.
        id: The name of the handler, in logs and in its stored progress. By default, the name of the
            function, followed by the field if there is one.
        param: A value for the function, as its kwarg ``param``. It tells apart several handlers of
            one function.
        errors: What an exception means that is neither a `kopf.TemporaryError` nor a
            `kopf.PermanentError`: ``kopf.ErrorsMode.TEMPORARY`` (retry; the default), ``PERMANENT``
            (fail for good) or ``IGNORED`` (log it and go on).
        timeout: Fail for good this many seconds after the first attempt, if the function fails
            then.
        retries: Fail for good after this number of attempts.
        backoff: Seconds to wait after such an exception, or `kopf.exponential`. By default,
            ``settings.execution.default_backoff``: 60 seconds.
        initial_delay: Seconds before the first call: a number, or a function of the kwargs.
        cancellation_backoff: Seconds to exit by itself after ``stopped`` is set, before Kopf
            cancels it.
        cancellation_timeout: Seconds to exit after that, before Kopf gives it up with a warning.
            Without it, the deletion waits for the function as long as it takes.
        cancellation_polling: How often, in seconds, Kopf logs that it is still waiting for the
            function.
        labels, annotations: Select only objects with these. For each key: a value, `kopf.PRESENT`,
            `kopf.ABSENT`, or a function that gets the value and the kwargs.
        when: Select only if this function of the kwargs returns true.
        field: Select only objects with this field, as in ``'spec.size'``.
        value: Select only if the field has this value; the same forms as for ``labels``.
        registry: Where to put the handler, if not into the default registry.
        concurrency: Limit how many calls of this handler run at a time, for all objects together.
    """
    return add_resource(
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
) -> Callable[[Fn], Fn]:
    """Call the function regularly for as long as the object exists and matches.

    The calls for one object never overlap. The views (``spec``, ``status`` etc.) always show the
    latest state.

    Example::

        @kopf.timer('databases', interval=60)
        def measure(spec, patch, **_):
            patch.status['size'] = get_size(spec['address'])

    Args:
        arg1, arg2, arg3: The resource: its plural, singular, kind or short name, as in ``'pods'``;
            with the group, and maybe the version, before it: ``'apps', 'deployments'``, ``'apps',
            'v1', 'deployments'``; or in one string: ``'deployments.v1.apps'``. `kopf.EVERYTHING`
            selects all resources except events; a function of a `kopf.Resource` selects those for
            which it returns true.
        group, version: Select only resources of this group, of this version (by default, the
            preferred one).
        kind, plural, singular, shortcut, category: Select by this kind of name only, instead of the
            positional names.
        id: The name of the handler, in logs and in its stored progress. By default, the name of the
            function, followed by the field if there is one.
        param: A value for the function, as its kwarg ``param``. It tells apart several handlers of
            one function.
        errors: What an exception means that is neither a `kopf.TemporaryError` nor a
            `kopf.PermanentError`: ``kopf.ErrorsMode.TEMPORARY`` (retry; the default), ``PERMANENT``
            or ``IGNORED`` (both: log it and wait for the next interval).
        timeout: Stop retrying this many seconds after the first attempt, and wait for the next
            interval.
        retries: Stop retrying after this number of attempts, and wait for the next interval.
        backoff: Seconds to wait after such an exception, or `kopf.exponential`. By default,
            ``settings.execution.default_backoff``: 60 seconds.
        interval: Seconds from the end of one call to the start of the next one. Without it, the
            function is called once, or after each ``idle`` period.
        initial_delay: Seconds before the first call: a number, or a function of the kwargs.
        sharp: Count the interval from the start of a call. Kopf skips the ticks that a long call
            misses.
        idle: Call it only after the object has not changed for this many seconds (its status does
            not count).
        labels, annotations: Select only objects with these. For each key: a value, `kopf.PRESENT`,
            `kopf.ABSENT`, or a function that gets the value and the kwargs.
        when: Select only if this function of the kwargs returns true.
        field: Select only objects with this field, as in ``'spec.size'``.
        value: Select only if the field has this value; the same forms as for ``labels``.
        registry: Where to put the handler, if not into the default registry.
        concurrency: Limit how many calls of this handler run at a time, for all objects together.
    """
    return add_resource(
        locals(), TimerHandler, '_spawning', requires_finalizer=True,
        initial_delay=initial_delay, interval=interval, sharp=sharp, idle=idle,
    )

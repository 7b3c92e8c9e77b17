"""Decorators for changes of objects. Kopf stores the progress of these handlers on the objects."""
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
    add_changing,
)
from kopf._declare.handlers import Reason

if TYPE_CHECKING:
    from kopf._declare.decorators.building import Backoff
    from kopf._declare.registries import OperatorRegistry
    from kopf._errors import ErrorsMode
    from kopf._objects.fields import FieldSpec


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
) -> Callable[[Fn], Fn]:
    """Call the function once for each new object, until it succeeds or fails for good.

    An object is new if this operator has not handled it before, however old the object is. Kopf
    stores what the function returns in ``status.<id>`` of the object.

    Example::

        @kopf.on.create('kopfexamples')
        def create(spec, name, namespace, patch, **_):
            patch.status['message'] = f"{name} has {len(spec)} fields"

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
        timeout: Fail for good this many seconds after the first attempt.
        retries: Fail for good after this number of attempts.
        backoff: Seconds to wait after such an exception, or `kopf.exponential`. By default,
            ``settings.execution.default_backoff``: 60 seconds.
        labels, annotations: Select only objects with these. For each key: a value, `kopf.PRESENT`,
            `kopf.ABSENT`, or a function that gets the value and the kwargs.
        when: Select only if this function of the kwargs returns true.
        field: Select only objects with this field, as in ``'spec.size'``. The kwargs ``old``,
            ``new`` and ``diff`` are then those of the field.
        value: Select only if the field has this value; the same forms as for ``labels``.
        registry: Where to put the handler, if not into the default registry.
        concurrency: Limit how many calls of this handler run at a time, for all objects together.
    """
    return add_changing(locals(), reason=Reason.CREATE)


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
) -> Callable[[Fn], Fn]:
    """Call the function when an object has changed since it was last handled.

    Changes of the status, and of what Kubernetes maintains in the metadata, do not count. The
    kwargs ``old``, ``new`` and ``diff`` show the change. Several changes in a row may arrive as
    one.

    Example::

        @kopf.on.update('kopfexamples', field='spec.size')
        def resize(old, new, logger, **_):
            logger.info(f"from {old} to {new}")

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
        timeout: Fail for good this many seconds after the first attempt.
        retries: Fail for good after this number of attempts.
        backoff: Seconds to wait after such an exception, or `kopf.exponential`. By default,
            ``settings.execution.default_backoff``: 60 seconds.
        labels, annotations: Select only objects with these. For each key: a value, `kopf.PRESENT`,
            `kopf.ABSENT`, or a function that gets the value and the kwargs.
        when: Select only if this function of the kwargs returns true.
        field: Call it only if this field has changed, as in ``'spec.size'``. The kwargs ``old``,
            ``new`` and ``diff`` are then those of the field.
        value: Select only if the field has this value, before or after the change; the same forms
            as for ``labels``.
        old, new: Select only if the field had this value before, has this value after the change;
            the same forms as for ``labels``. Not together with ``value``.
        registry: Where to put the handler, if not into the default registry.
        concurrency: Limit how many calls of this handler run at a time, for all objects together.
    """
    return add_changing(locals(), reason=Reason.UPDATE, field_needs_change=True)


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
) -> Callable[[Fn], Fn]:
    """Call the function when an object is being deleted, before it is gone.

    The operator puts a finalizer on the objects, so that Kubernetes keeps them until the function
    has succeeded or failed for good. With ``optional=True``, it does not: the object may go
    earlier.

    Example::

        @kopf.on.delete('kopfexamples')
        async def release(spec, **_):
            await cloud.delete_disk(spec['disk'])

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
        timeout: Fail for good this many seconds after the first attempt.
        retries: Fail for good after this number of attempts.
        backoff: Seconds to wait after such an exception, or `kopf.exponential`. By default,
            ``settings.execution.default_backoff``: 60 seconds.
        optional: Do not hold the deletion back for this handler.
        labels, annotations: Select only objects with these. For each key: a value, `kopf.PRESENT`,
            `kopf.ABSENT`, or a function that gets the value and the kwargs.
        when: Select only if this function of the kwargs returns true.
        field: Select only objects with this field, as in ``'spec.size'``. The kwargs ``old``,
            ``new`` and ``diff`` are then those of the field.
        value: Select only if the field has this value; the same forms as for ``labels``.
        registry: Where to put the handler, if not into the default registry.
        concurrency: Limit how many calls of this handler run at a time, for all objects together.
    """
    return add_changing(locals(), reason=Reason.DELETE, requires_finalizer=not optional)


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
) -> Callable[[Fn], Fn]:
    """Call the function once for each object that the operator finds when it starts.

    Objects that appear later are for `create`. Put both decorators on a function that must be
    called for every object; it is called once for each.

    Example::

        @kopf.on.resume('kopfexamples')
        @kopf.on.create('kopfexamples')
        def connect(spec, memo, **_):
            memo.connection = open_connection(spec['address'])

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
        timeout: Fail for good this many seconds after the first attempt.
        retries: Fail for good after this number of attempts.
        backoff: Seconds to wait after such an exception, or `kopf.exponential`. By default,
            ``settings.execution.default_backoff``: 60 seconds.
        deleted: Call it also for objects that are being deleted.
        labels, annotations: Select only objects with these. For each key: a value, `kopf.PRESENT`,
            `kopf.ABSENT`, or a function that gets the value and the kwargs.
        when: Select only if this function of the kwargs returns true.
        field: Select only objects with this field, as in ``'spec.size'``. The kwargs ``old``,
            ``new`` and ``diff`` are then those of the field.
        value: Select only if the field has this value; the same forms as for ``labels``.
        registry: Where to put the handler, if not into the default registry.
        concurrency: Limit how many calls of this handler run at a time, for all objects together.
    """
    return add_changing(locals(), initial=True, deleted=deleted)


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
) -> Callable[[Fn], Fn]:
    """Call the function when a field changes, appears or disappears, in new objects, too.

    The kwargs ``old``, ``new`` and ``diff`` are those of the field.

    Example::

        @kopf.on.field('kopfexamples', field='spec.size')
        def resize(old, new, **_):
            ...

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
        timeout: Fail for good this many seconds after the first attempt.
        retries: Fail for good after this number of attempts.
        backoff: Seconds to wait after such an exception, or `kopf.exponential`. By default,
            ``settings.execution.default_backoff``: 60 seconds.
        labels, annotations: Select only objects with these. For each key: a value, `kopf.PRESENT`,
            `kopf.ABSENT`, or a function that gets the value and the kwargs.
        when: Select only if this function of the kwargs returns true.
        field: The field, as in ``'spec.size'`` or ``['spec', 'size']``.
        value: Select only if the field has this value, before or after the change; the same forms
            as for ``labels``.
        old, new: Select only if the field had this value before, has this value after the change;
            the same forms as for ``labels``. Not together with ``value``.
        registry: Where to put the handler, if not into the default registry.
        concurrency: Limit how many calls of this handler run at a time, for all objects together.
    """
    return add_changing(locals(), field_needs_change=True)

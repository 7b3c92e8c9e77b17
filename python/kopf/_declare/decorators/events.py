"""Decorators for what the operator sees: every event of an object, and indexes of objects."""
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
from kopf._declare.handlers import IndexingHandler, WatchingHandler

if TYPE_CHECKING:
    from kopf._declare.decorators.building import Backoff
    from kopf._declare.registries import OperatorRegistry
    from kopf._errors import ErrorsMode
    from kopf._objects.fields import FieldSpec


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
) -> Callable[[Fn], Fn]:
    """Call the function for every event of the objects: each listed, added, changed, deleted one.

    The function gets ``event`` with its ``type`` and ``object``. Kopf stores nothing about the
    call, and does not retry it: it logs and ignores errors. To handle changes reliably, use
    `create`, `update` and `delete`.

    Example::

        @kopf.on.event('pods', labels={'app': 'web'})
        def see(event, name, logger, **_):
            logger.info(f"{event['type']}: {name}")

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
        id: The name of the handler in logs. By default, the name of the function, followed by the
            field if there is one.
        param: A value for the function, as its kwarg ``param``. It tells apart several handlers of
            one function.
        labels, annotations: Select only objects with these. For each key: a value, `kopf.PRESENT`,
            `kopf.ABSENT`, or a function that gets the value and the kwargs.
        when: Select only if this function of the kwargs returns true.
        field: Select only objects with this field, as in ``'spec.size'``.
        value: Select only if the field has this value; the same forms as for ``labels``.
        registry: Where to put the handler, if not into the default registry.
        concurrency: Limit how many calls of this handler run at a time, for all objects together.
    """
    return add_resource(locals(), WatchingHandler, '_watching')


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
) -> Callable[[Fn], Fn]:
    """Keep what the function returns for each object in an index, for all other handlers.

    The index is a kwarg of all handlers, named after the function (or ``id``). If the function
    returns a mapping, its keys are the keys of the index. Handlers wait until all objects are
    indexed.

    Example::

        @kopf.index('pods')
        def pods_by_node(spec, namespace, name, **_):
            return {spec.get('nodeName'): (namespace, name)}

        @kopf.on.create('maintenances')
        def drain(spec, pods_by_node: kopf.Index, **_):
            for namespace, name in pods_by_node.get(spec['node'], []):
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
        id: The name of the index. By default, the name of the function.
        param: A value for the function, as its kwarg ``param``. It tells apart several handlers of
            one function.
        errors: What an exception means that is neither a `kopf.TemporaryError` nor a
            `kopf.PermanentError`: ``kopf.ErrorsMode.IGNORED`` (the default), ``TEMPORARY`` (retry)
            or ``PERMANENT`` (leave the object out for good).
        timeout: Fail for good this many seconds after the first attempt.
        retries: Fail for good after this number of attempts.
        backoff: Seconds to wait after such an exception, or `kopf.exponential`. By default,
            ``settings.execution.default_backoff``: 60 seconds.
        labels, annotations: Select only objects with these. For each key: a value, `kopf.PRESENT`,
            `kopf.ABSENT`, or a function that gets the value and the kwargs.
        when: Select only if this function of the kwargs returns true.
        field: Select only objects with this field, as in ``'spec.size'``.
        value: Select only if the field has this value; the same forms as for ``labels``.
        registry: Where to put the handler, if not into the default registry.
        concurrency: Limit how many calls of this handler run at a time, for all objects together.
    """
    return add_resource(locals(), IndexingHandler, '_indexing', field_in_id=False)

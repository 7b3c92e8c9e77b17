"""Decorators for what Kubernetes asks before it makes a change: admission and conversion."""
from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from kopf._declare.decorators.building import (
    Callback,
    Fn,
    MetaFilter,
    NameArg,
    ResourceArg,
    ValueFilter,
    add_webhook,
)
from kopf._declare.handlers import WebhookType

if TYPE_CHECKING:
    from kopf._declare.registries import OperatorRegistry
    from kopf._objects.fields import FieldSpec
    from kopf._objects.typedefs import Operation


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
) -> Callable[[Fn], Fn]:
    """Call the function to accept or reject a change before Kubernetes makes it.

    Any exception rejects the change. The kwarg ``warnings`` is a list to append to. There are no
    retries: the client waits. ``settings.admission.server`` must be set.

    Example::

        @kopf.on.validate('kopfexamples', operations=['CREATE', 'UPDATE'])
        def check(spec, **_):
            if spec.get('size', 0) > 5:
                raise kopf.AdmissionError("The size is limited to 5.", code=422)

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
        id: The name of the handler, in logs and in the URL of the webhook. By default, the name of
            the function, followed by the field if there is one.
        param: A value for the function, as its kwarg ``param``. It tells apart several handlers of
            one function.
        operation: Deprecated: use ``operations``.
        operations: Only for these operations: ``'CREATE'``, ``'UPDATE'``, ``'DELETE'``,
            ``'CONNECT'``. By default, for all of them.
        subresource: Only for this subresource, such as ``'status'``; ``'*'`` is for all, and for
            the object itself.
        persistent: Keep the webhook configured while the operator is down. Kubernetes then makes no
            such change.
        side_effects: Declare that the function does more than answer (but not in dry runs).
        ignore_failures: Make the change if Kubernetes cannot reach the operator.
        labels, annotations: Select only objects with these. For each key: a value, `kopf.PRESENT`,
            `kopf.ABSENT`, or a function that gets the value and the kwargs.
        when: Select only if this function of the kwargs returns true.
        field: Select only objects with this field, as in ``'spec.size'``.
        value: Select only if the field has this value; the same forms as for ``labels``.
        registry: Where to put the handler, if not into the default registry.
        concurrency: Limit how many calls of this handler run at a time, for all objects together.
    """
    return add_webhook(locals(), WebhookType.VALIDATING)


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
) -> Callable[[Fn], Fn]:
    """Call the function to adjust a change before Kubernetes makes it.

    What the function puts into ``patch`` becomes a part of the change. Any exception rejects the
    change. There are no retries: the client waits. ``settings.admission.server`` must be set.

    Example::

        @kopf.on.mutate('kopfexamples', operations=['CREATE'])
        def set_defaults(spec, patch, **_):
            if 'size' not in spec:
                patch.spec['size'] = 1

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
        id: The name of the handler, in logs and in the URL of the webhook. By default, the name of
            the function, followed by the field if there is one.
        param: A value for the function, as its kwarg ``param``. It tells apart several handlers of
            one function.
        operation: Deprecated: use ``operations``.
        operations: Only for these operations: ``'CREATE'``, ``'UPDATE'``, ``'DELETE'``,
            ``'CONNECT'``. By default, for all except deletions.
        subresource: Only for this subresource, such as ``'status'``; ``'*'`` is for all, and for
            the object itself.
        persistent: Keep the webhook configured while the operator is down. Kubernetes then makes no
            such change.
        side_effects: Declare that the function does more than answer (but not in dry runs).
        ignore_failures: Make the change if Kubernetes cannot reach the operator.
        labels, annotations: Select only objects with these. For each key: a value, `kopf.PRESENT`,
            `kopf.ABSENT`, or a function that gets the value and the kwargs.
        when: Select only if this function of the kwargs returns true.
        field: Select only objects with this field, as in ``'spec.size'``.
        value: Select only if the field has this value; the same forms as for ``labels``.
        registry: Where to put the handler, if not into the default registry.
        concurrency: Limit how many calls of this handler run at a time, for all objects together.
    """
    return add_webhook(locals(), WebhookType.MUTATING)


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
) -> Callable[[Fn], Fn]:
    """Call the function to convert custom resources from one version to another.

    The function either returns the whole new object, or changes the old one by its ``patch``. Where
    no function connects two versions directly, Kopf calls the shortest chain of functions.

    Example::

        @kopf.on.convert('kopfexamples', from_='v1', to='v2')
        def convert(spec, patch, **_):
            patch.spec['size'] = spec.get('replicas', 1)

    Args:
        arg1, arg2: The resource: its plural, singular, kind or short name; maybe the group before
            it: ``'example.com', 'kopfexamples'``; or in one string: ``'kopfexamples.example.com'``.
        from_: The version to convert from.
        to: The version to convert to.
        group: Select only resources of this group.
        kind, plural, singular, shortcut: Select by this kind of name only, instead of the
            positional names.
        id: The name of the handler, in logs and in the URL of the webhook. By default, the name of
            the function, followed by the field if there is one.
        param: A value for the function, as its kwarg ``param``. It tells apart several handlers of
            one function.
        persistent: Keep the webhook configured while the operator is down. Kubernetes then cannot
            convert.
        registry: Where to put the handler, if not into the default registry.
        concurrency: Limit how many calls of this handler run at a time, for all objects together.
    """
    if not from_ or not to or from_ == to:
        raise ValueError(f"A conversion is from one version to another one, "
                         f"not from {from_!r} to {to!r}.")
    params = {
        **locals(), 'arg3': None, 'version': None, 'category': None, 'operation': None,
        'operations': None, 'subresource': None, 'side_effects': None, 'ignore_failures': None,
        'labels': None, 'annotations': None, 'when': None, 'field': None, 'value': None,
    }
    return add_webhook(params, WebhookType.CONVERTING, from_version=from_, to_version=to)

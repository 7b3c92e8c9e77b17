"""The decorator that adds a filter to the other decorators of the same function."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kopf._declare.decorators.building import (
    Callback,
    Fn,
    MetaFilter,
    NameArg,
    ResourceArg,
    ValueFilter,
    get_registry,
    get_selector,
    verify_filters,
)
from kopf._declare.handlers import Condition
from kopf._objects.fields import parse_field

if TYPE_CHECKING:
    from kopf._declare.registries import OperatorRegistry
    from kopf._objects.fields import FieldSpec


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
) -> Callable[[Fn], Fn]:
    """Add a filter to all change handlers of the same function, above or below this line.

    With a resource, the filter is only for objects of that resource. Several conditions of a
    function must all be true.

    Example::

        @kopf.on.condition('kopfexamples', field='spec.enabled', value=True)
        @kopf.on.create('kopfexamples')
        @kopf.on.update('kopfexamples')
        def handle(spec, **_):
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
        labels, annotations: Select only objects with these. For each key: a value, `kopf.PRESENT`,
            `kopf.ABSENT`, or a function that gets the value and the kwargs.
        when: Select only if this function of the kwargs returns true.
        field: Select only objects with this field, as in ``'spec.size'``.
        value: Select only if the field has this value, before or after the change; the same forms
            as for ``labels``.
        old, new: Select only if the field had this value before, has this value after the change;
            the same forms as for ``labels``. Not together with ``value``.
        registry: Where the handlers are, if not in the default registry.
    """
    names = (arg1, arg2, arg3, group, version, kind, plural, singular, shortcut, category)
    params = locals()
    verify_filters(params)

    def decorator(fn: Fn) -> Fn:
        get_registry(params)._add_condition(fn, Condition(
            selector=get_selector(params) if any(name is not None for name in names) else None,
            labels=labels, annotations=annotations, when=when,
            field=parse_field(field) or None, value=value, old=old, new=new,
        ))
        return fn
    return decorator

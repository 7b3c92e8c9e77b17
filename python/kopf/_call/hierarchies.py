"""Families of objects: owner references, names, namespaces and labels of children.

Handlers call these functions on objects before they create them. All functions change the objects
in place, and take one object or (nested) collections of them: dicts, objects of pykube, models of
the client libraries. Inside a handler, the owner is its object unless given.
"""
from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from kopf._call.context import cause_var
from kopf._objects.fields import UNSET, FieldSpec, is_async_model, is_sync_model, walk
from kopf._objects.views import Body, build_owner_reference

if TYPE_CHECKING:
    from kopf._objects.typedefs import OwnerReference


def append_owner_reference(
        objs: Any,
        owner: Body | None = None,
        *,
        controller: bool | None = True,
        block_owner_deletion: bool | None = True,
) -> None:
    """Make the owner own the objects: Kubernetes deletes them together with it.

    Args:
        objs: An object or a collection of them: dicts, models of client libraries, pykube objects.
        owner: The owner. By default, the object of the running handler.
        controller: Whether the owner is the one that controls the objects.
        block_owner_deletion: Whether a foreground deletion of the owner waits for the objects.
    """
    reference = build_owner_reference(
        _guess_owner(owner), controller=controller, block_owner_deletion=block_owner_deletion)
    for child in _walk(objs):
        child.append_owner_reference(reference)


def remove_owner_reference(objs: Any, owner: Body | None = None) -> None:
    """Remove the owner from the owners of the objects.

    Args:
        objs: An object or a collection of them: dicts, models of client libraries, pykube objects.
        owner: The owner. By default, the object of the running handler.
    """
    reference = build_owner_reference(_guess_owner(owner))
    for child in _walk(objs):
        child.remove_owner_reference(reference)


def label(
        objs: Any,
        labels: Mapping[str, str | None] | Any = UNSET,
        *,
        forced: bool = False,
        nested: str | Iterable[FieldSpec] | None = None,
        force: bool | None = None,
) -> None:
    """Put labels on the objects, and on nested parts of them.

    Example::

        kopf.label(deployment, {'app': name}, nested=['spec.template'])

    Args:
        objs: An object or a collection of them: dicts, models of client libraries, pykube objects.
        labels: The labels. By default, those of the object of the running handler.
        forced: Whether to replace labels that the objects have already.
        nested: Fields with metadata and labels, such as ``'spec.template'``.
        force: Deprecated: use ``forced``.
    """
    if force is not None:
        warnings.warn("force= is deprecated in kopf.label(); use forced=...",
                      DeprecationWarning, stacklevel=2)
        forced = force
    if labels is UNSET:
        labels = _guess_owner(None).metadata.labels
    nested = [nested] if isinstance(nested, str) else nested
    for child in _walk(objs, nested):
        existing = child.get_labels()
        for key, value in labels.items():
            if forced or key not in existing:
                existing[key] = value


def harmonize_naming(
        objs: Any,
        name: Any | str | None = UNSET,
        *,
        forced: bool = False,
        strict: bool = False,
) -> None:
    """Name the objects after the owner, unless they have names.

    Args:
        objs: An object or a collection of them: dicts, models of client libraries, pykube objects.
        name: The name. By default, that of the object of the running handler.
        forced: Whether to replace the names that the objects have already.
        strict: Whether to use exactly this name. By default, it is a prefix (``generateName``), and
            Kubernetes adds a random suffix.
    """
    if name is UNSET:
        name = _guess_owner(None).metadata.name
    if name is None:
        raise LookupError("Name must be set explicitly: couldn't find it automatically.")
    for child in _walk(objs):
        if forced or not (child.get('name') or child.get('generateName')):
            if strict:
                child.set('name', name)
                child.unset('generateName')
            else:
                child.set('generateName', f'{name}-')
                child.unset('name')


def adjust_namespace(
        objs: Any,
        namespace: Any | str | None = UNSET,
        *,
        forced: bool = False,
) -> None:
    """Put the objects into the namespace of the owner, unless they have one.

    Args:
        objs: An object or a collection of them: dicts, models of client libraries, pykube objects.
        namespace: The namespace. By default, that of the object of the running handler.
        forced: Whether to replace the namespaces that the objects have already.
    """
    if namespace is UNSET:
        namespace = _guess_owner(None).metadata.namespace
    for child in _walk(objs):
        if forced or child.get('namespace') is None:
            child.set('namespace', namespace)


def adopt(
        objs: Any,
        owner: Body | None = None,
        *,
        forced: bool = False,
        strict: bool = False,
        nested: str | Iterable[FieldSpec] | None = None,
) -> None:
    """Make the objects children of the owner, before they are created.

    They get an owner reference, so that Kubernetes deletes them together with the owner; and the
    name, the namespace and the labels of the owner, unless they have their own.

    Example::

        @kopf.on.create('kopfexamples')
        def create(spec, **_):
            pod = {'apiVersion': 'v1', 'kind': 'Pod', 'spec': spec['podTemplate']}
            kopf.adopt(pod)
            pykube.Pod(api, pod).create()

    Args:
        objs: An object or a collection of them: dicts, models of client libraries, pykube objects.
        owner: The owner. By default, the object of the running handler.
        forced: Whether to replace names, namespaces and labels that the objects have already.
        strict: Whether to use exactly the name of the owner. By default, it is a prefix, and
            Kubernetes adds a random suffix.
        nested: Fields that get the labels, too, such as ``'spec.template'``.
    """
    real_owner = _guess_owner(owner)
    metadata = real_owner.get('metadata') or {}
    append_owner_reference(objs, owner=real_owner)
    harmonize_naming(objs, name=metadata.get('name'), forced=forced, strict=strict)
    adjust_namespace(objs, namespace=metadata.get('namespace'), forced=forced)
    label(objs, labels=metadata.get('labels') or {}, forced=forced, nested=nested)


class _Dict:
    """Metadata of an object that is a dict."""

    def __init__(self, obj: MutableMapping[Any, Any]) -> None:
        self._obj = obj

    @property
    def _metadata(self) -> MutableMapping[Any, Any]:
        return self._obj.setdefault('metadata', {})

    def get(self, name: str) -> Any:
        return (self._obj.get('metadata') or {}).get(name)

    def set(self, name: str, value: Any) -> None:
        self._metadata[name] = value

    def unset(self, name: str) -> None:
        self._metadata.pop(name, None)

    def get_labels(self) -> MutableMapping[str, Any]:
        return self._metadata.setdefault('labels', {})

    def append_owner_reference(self, reference: OwnerReference) -> None:
        references = self._metadata.setdefault('ownerReferences', [])
        if not any(other.get('uid') == reference.get('uid') for other in references):
            references.append(dict(reference))

    def remove_owner_reference(self, reference: OwnerReference) -> None:
        references = self._metadata.setdefault('ownerReferences', [])
        references[:] = [other for other in references
                         if other.get('uid') != reference.get('uid')]


class _Model:
    """Metadata of an object that is a model of a client library."""

    _ATTRIBUTES = {'name': 'name', 'generateName': 'generate_name', 'namespace': 'namespace'}

    def __init__(self, obj: Any, library: str) -> None:
        self._obj = obj
        # The module is there: the object is of one of its classes.
        self._client: Any = sys.modules[f'{library}.client']

    @property
    def _metadata(self) -> Any:
        if self._obj.metadata is None:
            self._obj.metadata = self._client.V1ObjectMeta()
        return self._obj.metadata

    def get(self, name: str) -> Any:
        return getattr(self._metadata, self._ATTRIBUTES[name])

    def set(self, name: str, value: Any) -> None:
        setattr(self._metadata, self._ATTRIBUTES[name], value)

    def unset(self, name: str) -> None:
        self.set(name, None)

    def get_labels(self) -> MutableMapping[str, Any]:
        if self._metadata.labels is None:
            self._metadata.labels = {}
        return self._metadata.labels

    def _get_references(self) -> list[Any]:
        if self._metadata.owner_references is None:
            self._metadata.owner_references = []
        return self._metadata.owner_references

    def append_owner_reference(self, reference: OwnerReference) -> None:
        references = self._get_references()
        if not any(other.uid == reference.get('uid') for other in references):
            references.append(self._client.V1OwnerReference(
                api_version=reference.get('apiVersion'),
                kind=reference.get('kind'),
                name=reference.get('name'),
                uid=reference.get('uid'),
                controller=reference.get('controller'),
                block_owner_deletion=reference.get('blockOwnerDeletion'),
            ))

    def remove_owner_reference(self, reference: OwnerReference) -> None:
        references = self._get_references()
        references[:] = [other for other in references if other.uid != reference.get('uid')]


def _walk(objs: Any, nested: Iterable[FieldSpec] | None = None) -> Iterator[_Dict | _Model]:
    for obj in walk(objs, nested=nested):
        if isinstance(obj, MutableMapping):
            yield _Dict(obj)
        elif is_sync_model(obj):
            yield _Model(obj, 'kubernetes')
        elif is_async_model(obj):
            yield _Model(obj, 'kubernetes_asyncio')
        else:
            raise TypeError(f"K8s object class is not supported: {type(obj)}")


def _guess_owner(owner: Any) -> Any:
    if owner is not None:
        return owner
    body = getattr(cause_var.get(None), 'body', None)
    if body is None:
        raise LookupError("Owner must be set explicitly, since running outside of a handler.")
    return body

"""What handlers see of an object: `body`, `spec`, `meta`, `status`, `labels`, `annotations`.

The engine hands over the JSON of an object. Kopf decodes it when a handler first looks into it, and
keeps it decoded for all handlers of the same cycle. Daemons and timers see the latest state. A view
of an absent stanza is empty. Nested values are plain dicts and lists.
"""
from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from typing import TYPE_CHECKING, Any

from kopf._objects.fields import ensure, parse_field, resolve

if TYPE_CHECKING:
    from kopf._native import LatestBody
    from kopf._objects.fields import FieldSpec
    from kopf._objects.typedefs import BodyEssence, ObjectReference, OwnerReference, RawBody

Labels = Mapping[str, str]
Annotations = Mapping[str, str]


class MappingView(Mapping[Any, Any]):
    """A read-only view of one field of a mapping; it follows the changes of the mapping."""

    __slots__ = ('_path', '_src')

    def __init__(self, src: Any, path: FieldSpec = None, /) -> None:
        self._src = src
        self._path = path if type(path) is tuple else parse_field(path)

    def _get(self) -> Mapping[Any, Any]:
        value = self._src
        for key in self._path:
            value = value.get(key)
            if value is None:
                return {}
        return value

    def __getitem__(self, key: Any) -> Any:
        return self._get()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._get())

    def __len__(self) -> int:
        return len(self._get())

    def __contains__(self, key: object) -> bool:
        return key in self._get()

    def __repr__(self) -> str:
        return repr(dict(self))

    def get(self, key: Any, default: Any = None) -> Any:
        return self._get().get(key, default)

    def keys(self) -> KeysView[Any]:
        return self._get().keys()

    def values(self) -> ValuesView[Any]:
        return self._get().values()

    def items(self) -> ItemsView[Any, Any]:
        return self._get().items()


class MutableMappingView(MappingView, MutableMapping[Any, Any]):
    """A view through which fields can be set; it creates their parents when needed."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        ensure(self._src, (*self._path, key), value)

    def __delitem__(self, key: Any) -> None:
        del resolve(self._src, self._path)[key]


class ReplaceableMappingView(MappingView):
    """A view whose source can be replaced, so that long-living views stay up to date."""

    __slots__ = ()

    def _replace_from(self, other: MappingView, /) -> None:
        self._src = other._src

    def _replace_with(self, src: Mapping[Any, Any], /) -> None:
        self._src = src


class Body(ReplaceableMappingView):
    """A whole object, made from a dict, or from JSON that is decoded at the first look."""

    # It keeps no views of its stanzas: they refer to it, and cycles wait for the garbage collector.
    __slots__ = ('_json',)

    _json: bytes | None

    def __init__(self, src: RawBody | BodyEssence | Mapping[str, Any], /) -> None:
        super().__init__(src)
        self._json = None

    @classmethod
    def _from_json(cls, content: bytes, /) -> Body:
        body = cls({})
        body._json = content
        return body

    def _get(self) -> Mapping[Any, Any]:
        # Several threads may run this at the same time; each of them gets a whole object.
        content = self._json
        if content is not None:
            import json
            self._src = json.loads(content.decode())
            self._json = None
        return self._src

    def _replace_from(self, other: MappingView, /) -> None:
        self._replace_with(other._get())

    def _replace_with(self, src: Mapping[Any, Any], /) -> None:
        self._json = None
        self._src = src

    @property
    def metadata(self) -> Meta:
        return Meta(self)

    @property
    def meta(self) -> Meta:
        return self.metadata

    @property
    def spec(self) -> Spec:
        return Spec(self)

    @property
    def status(self) -> Status:
        return Status(self)


class LiveBody(Body):
    """A whole object in its latest state that the operator knows, at every look."""

    __slots__ = ('_latest', '_number')

    def __init__(self, latest: LatestBody, /) -> None:
        super().__init__({})
        self._latest = latest
        self._number: int | None = None

    def _get(self) -> Mapping[Any, Any]:
        newest = self._latest.newer_than(self._number)
        if newest is None:
            return self._src
        import json
        # Several threads may run this at the same time; each of them gets a whole object.
        number, content = newest
        source = json.loads(content.decode())
        self._src, self._number = source, number
        return source


class Meta(MappingView):
    """`metadata` of an object, with shortcuts to its best-known fields."""

    __slots__ = ()

    def __init__(self, src: Body, /) -> None:
        super().__init__(src, ('metadata',))

    @property
    def labels(self) -> Labels:
        return MappingView(self, ('labels',))

    @property
    def annotations(self) -> Annotations:
        return MappingView(self, ('annotations',))

    # Real objects always have a uid and a name. Those of unit tests may have none: then it is None.
    @property
    def uid(self) -> str:
        return self.get('uid')  # type: ignore[return-value]

    @property
    def name(self) -> str:
        return self.get('name')  # type: ignore[return-value]

    @property
    def namespace(self) -> str | None:
        return self.get('namespace')

    @property
    def creation_timestamp(self) -> str | None:
        return self.get('creationTimestamp')

    @property
    def deletion_timestamp(self) -> str | None:
        return self.get('deletionTimestamp')


class Spec(MappingView):
    """`spec` of an object."""

    __slots__ = ()

    def __init__(self, src: Body, /) -> None:
        super().__init__(src, ('spec',))


class Status(MappingView):
    """`status` of an object."""

    __slots__ = ()

    def __init__(self, src: Body, /) -> None:
        super().__init__(src, ('status',))


def build_object_reference(body: Body) -> ObjectReference:
    """Refer to an object as Kubernetes events do. The reference lacks what the object lacks.

    Args:
        body: The object.
    """
    metadata = body.get('metadata') or {}
    reference = {
        'apiVersion': body.get('apiVersion'),
        'kind': body.get('kind'),
        'name': metadata.get('name'),
        'uid': metadata.get('uid'),
        'namespace': metadata.get('namespace'),
    }
    return {key: value for key, value in reference.items() if value}  # type: ignore[return-value]


def build_owner_reference(
        body: Body,
        *,
        controller: bool | None = True,
        block_owner_deletion: bool | None = True,
) -> OwnerReference:
    """Refer to an object as the owner of other objects, for `metadata.ownerReferences`.

    Args:
        body: The owner.
        controller: Whether the owner is the one that controls the objects.
        block_owner_deletion: Whether a foreground deletion of the owner waits for the objects.
    """
    metadata = body.get('metadata') or {}
    reference = {
        'controller': controller,
        'blockOwnerDeletion': block_owner_deletion,
        'apiVersion': body.get('apiVersion'),
        'kind': body.get('kind'),
        'name': metadata.get('name'),
        'uid': metadata.get('uid'),
    }
    return {  # type: ignore[return-value]
        key: value for key, value in reference.items() if value is not None
    }

"""Paths to fields, and reading, writing and removing what they point to.

Users write a field as `'spec.size'`, `['spec', 'size']` or `('spec', 'size')`; inside Kopf, it is
always a tuple of keys. Views, patches, storages and hierarchies use these functions. They recognise
objects of client libraries by the module of the class, so that Kopf imports no such library.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

FieldPath = tuple[str, ...]
FieldSpec = str | FieldPath | list[str] | None


class _Unset:
    """The absence of a default value, distinct from `None`."""

    def __repr__(self) -> str:
        return '<unset>'


UNSET = _Unset()


def parse_field(field: FieldSpec) -> FieldPath:
    """Turn any spelling of a field into a tuple of keys; `None` is the root."""
    if field is None:
        return ()
    if isinstance(field, str):
        return tuple(field.split('.'))
    if isinstance(field, (list, tuple)):
        return tuple(field)
    raise ValueError(f"A field is a string, a list or a tuple of strings, not {field!r}.")


def resolve(structure: Any, field: FieldSpec, default: Any = UNSET) -> Any:
    """Get what the field points to in nested mappings, or the default if it is absent."""
    value = structure
    for key in parse_field(field):
        if not isinstance(value, Mapping):
            if default is UNSET:
                raise TypeError(f"There is no field {key!r} in {value!r}: it is not a mapping.")
            return default
        try:
            value = value[key]
        except KeyError:
            if default is UNSET:
                raise
            return default
    return value


def resolve_object(structure: Any, field: FieldSpec, default: Any = UNSET) -> Any:
    """The same, but also through the attributes of models of client libraries."""
    value = structure
    try:
        for key in parse_field(field):
            if isinstance(value, Mapping):
                value = value[key]
            elif isinstance(value, (str, bytes, list, tuple, set, frozenset)):
                if default is UNSET:
                    raise TypeError(f"There is no field {key!r} in {value!r}.")
                return default
            else:
                names = getattr(value, 'attribute_map', None) or {}
                attribute = next((name for name, field in names.items() if field == key), key)
                value = getattr(value, attribute)
    except (AttributeError, KeyError):
        if default is UNSET:
            raise
        return default
    return value


def ensure(structure: MutableMapping[Any, Any], field: FieldSpec, value: Any) -> None:
    """Set the field, and create the mappings on the way to it."""
    path = parse_field(field)
    if not path:
        raise ValueError("The root of a mapping cannot be set, only its fields.")
    target: Any = structure
    for key in path[:-1]:
        try:
            target = target[key]
        except KeyError:
            target[key] = target = {}
    target[path[-1]] = value


def remove(structure: MutableMapping[Any, Any], field: FieldSpec) -> None:
    """Remove the field if it is there, and the mappings on the way that become empty."""
    path = parse_field(field)
    if not path:
        raise ValueError("The root of a mapping cannot be removed, only its fields.")
    parents: list[Any] = [structure]
    try:
        for key in path[:-1]:
            parents.append(parents[-1][key])
        del parents[-1][path[-1]]
    except KeyError:
        pass
    for parent, key in zip(reversed(parents[:-1]), reversed(path[:len(parents) - 1]), strict=False):
        if parent[key] == {}:
            del parent[key]
        else:
            break


def cherrypick(
        src: Mapping[Any, Any],
        dst: MutableMapping[Any, Any],
        fields: Iterable[FieldSpec] | None,
        picker: Callable[[Any], Any] | None = None,
) -> None:
    """Copy the fields that exist from one structure to another."""
    for field in fields or ():
        try:
            value = resolve(src, field)
        except KeyError:
            continue
        ensure(dst, field, picker(value) if picker is not None else value)


def walk(objects: Any, *, nested: Iterable[FieldSpec] | None = None) -> Iterator[Any]:
    """Yield every single object of an object or of (nested) collections of objects.

    With `nested`, the named parts of each object follow it, where they exist.
    """
    if objects is None:
        return
    if is_pykube_object(objects):
        yield from walk(objects.obj, nested=nested)
    elif is_model(objects):
        yield objects
        for field in nested or ():
            try:
                yield resolve_object(objects, field)
            except (AttributeError, KeyError):
                continue
    elif isinstance(objects, Mapping):
        yield objects
        for field in nested or ():
            try:
                yield resolve(objects, field)
            except KeyError:
                continue
    elif isinstance(objects, Iterable):
        for item in objects:
            yield from walk(item, nested=nested)
    else:
        yield objects


def is_pykube_object(value: object) -> bool:
    return _comes_from(value, ('pykube.objects',))


def is_sync_model(value: object) -> bool:
    return _comes_from(value, ('kubernetes.client.models',))


def is_async_model(value: object) -> bool:
    return _comes_from(value, ('kubernetes_asyncio.client.models',))


def is_model(value: object) -> bool:
    return _comes_from(value, ('kubernetes.client.models', 'kubernetes_asyncio.client.models'))


def _comes_from(value: object, modules: tuple[str, ...]) -> bool:
    for cls in type(value).__mro__:
        name = cls.__module__
        if any(name == module or name.startswith(f'{module}.') for module in modules):
            return True
    return False

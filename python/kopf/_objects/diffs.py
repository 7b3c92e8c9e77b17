"""The difference of two structures, as handlers get it in `diff`.

The engine computes the diffs of causes; this module presents them as Python users know them, and
computes the diffs that users or user-written storages request.
Lists and scalars are opaque: they change as a whole. `None` is the absence of a value.
"""
from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, overload

from kopf._objects.enums import StringEnum
from kopf._objects.fields import FieldPath, resolve


class DiffOperation(StringEnum):
    """What has happened to a field; equal to its string."""

    ADD = 'add'
    CHANGE = 'change'
    REMOVE = 'remove'

    def __repr__(self) -> str:
        return repr(self.value)


class DiffScope(enum.Flag):
    """Whose keys count in a comparison: of the left side, of the right one, of both."""

    RIGHT = enum.auto()
    LEFT = enum.auto()
    FULL = LEFT | RIGHT


class DiffItem(NamedTuple):
    """One changed field; equal to a plain tuple of the same values."""

    operation: DiffOperation
    field: FieldPath
    old: Any
    new: Any

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence):
            return tuple(self) == tuple(other)
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        if isinstance(other, Sequence):
            return tuple(self) != tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    @property
    def op(self) -> DiffOperation:
        return self.operation


class Diff(Sequence[DiffItem]):
    """All changed fields; equal to a plain tuple or list of the same items.

    Most handlers do not look into it, so the diff of a cause is decoded at the first look.
    """

    __slots__ = ('_decoded', '_json')

    def __init__(self, items: Iterable[Any], /) -> None:
        self._json: bytes | None = None
        self._decoded: tuple[DiffItem, ...] = tuple(
            DiffItem(DiffOperation(operation), field, old, new)
            for operation, field, old, new in items
        )

    @classmethod
    def _from_json(cls, content: bytes, /) -> Diff:
        diff = cls(())
        diff._json = content
        return diff

    @property
    def _items(self) -> tuple[DiffItem, ...]:
        if self._json is not None:
            import json
            self._decoded = tuple(
                DiffItem(DiffOperation(operation), tuple(field), old, new)
                for operation, field, old, new in json.loads(self._json.decode())
            )
            self._json = None
        return self._decoded

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return repr(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[DiffItem]:
        return iter(self._items)

    @overload
    def __getitem__(self, index: int) -> DiffItem: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[DiffItem]: ...
    def __getitem__(self, index: int | slice) -> DiffItem | Sequence[DiffItem]:
        return self._items[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence):
            return self._items == tuple(other)
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        if isinstance(other, Sequence):
            return self._items != tuple(other)
        return NotImplemented


def diff(a: Any, b: Any, path: FieldPath = (), *, scope: DiffScope = DiffScope.FULL) -> Diff:
    """Compute what turns `a` into `b`."""
    return Diff(diff_iter(a, b, path, scope=scope))


def diff_iter(
        a: Any,
        b: Any,
        path: FieldPath = (),
        *,
        scope: DiffScope = DiffScope.FULL,
) -> Iterator[DiffItem]:
    if a == b:
        return
    if a is None:
        yield DiffItem(DiffOperation.ADD, path, a, b)
    elif b is None:
        yield DiffItem(DiffOperation.REMOVE, path, a, b)
    elif isinstance(a, Mapping) and isinstance(b, Mapping):
        if DiffScope.RIGHT in scope:
            for key in b:
                if key not in a:
                    yield from diff_iter(None, b[key], (*path, key), scope=scope)
        for key in a:
            if key in b:
                yield from diff_iter(a[key], b[key], (*path, key), scope=scope)
            elif DiffScope.LEFT in scope:
                yield from diff_iter(a[key], None, (*path, key), scope=scope)
    else:
        yield DiffItem(DiffOperation.CHANGE, path, a, b)


def reduce(items: Diff, path: FieldPath) -> Diff:
    """The same difference, as seen from inside one field."""
    return Diff(reduce_iter(items, path))


def reduce_iter(items: Iterable[Any], path: FieldPath) -> Iterator[DiffItem]:
    path = tuple(path)
    for operation, field, old, new in items:
        field = tuple(field)
        if field[:len(path)] == path:
            yield DiffItem(operation, field[len(path):], old, new)
        elif path[:len(field)] == field:
            inside = path[len(field):]
            yield from diff_iter(resolve(old, inside, None), resolve(new, inside, None))


EMPTY = Diff(())

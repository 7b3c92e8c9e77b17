"""The indices of one operator: read-only to handlers, filled by the front.

Any thread reads them while the event loop and the threads of sync index functions change them. Each
change holds a lock. Each reading is one operation on a dict, or works on a copy of it. So readers
need no lock, and never see a dict change while they iterate it.
"""
from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

_K = TypeVar('_K')
_V = TypeVar('_V')


class Store(Collection[_V], Generic[_V]):
    """All values of one key of an index, in no particular order: the public, read-only type."""


class Index(Mapping[_K, Store[_V]], Generic[_K, _V]):
    """The values that an index function has returned for all objects, by keys: the public type."""


AnyIndices = Mapping[str, Index[Any, Any]]


class WritableStore(Store[_V]):
    """The values of one key: at most one per object."""

    def __init__(self) -> None:
        self._values: dict[str, _V] = {}

    def __repr__(self) -> str:
        return repr(list(self._values.copy().values()))

    def __bool__(self) -> bool:
        return bool(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[_V]:
        return iter(self._values.copy().values())

    def __contains__(self, value: object) -> bool:
        return any(value == known for known in self)


class WritableIndex(Index[_K, _V]):
    """The stores by their keys. A key without values is absent."""

    def __init__(self) -> None:
        self._stores: dict[_K, WritableStore[_V]] = {}
        self._keys: dict[str, set[_K]] = {}  # by objects: the keys of their old values
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return repr(self._stores.copy())

    def __bool__(self) -> bool:
        return bool(self._stores)

    def __len__(self) -> int:
        return len(self._stores)

    def __iter__(self) -> Iterator[_K]:
        return iter(self._stores.copy())

    def __contains__(self, key: object) -> bool:
        return key in self._stores

    def __getitem__(self, key: _K) -> WritableStore[_V]:
        return self._stores[key]

    def _replace(self, uid: str, values: Mapping[_K, _V]) -> None:
        """Replace all values of the object with these."""
        with self._lock:
            old_keys = self._keys.get(uid, set())
            new_keys = set(values)
            for key, value in values.items():
                store = self._stores.get(key)
                if store is None:
                    # Filled before readers can see it: an index has no empty stores.
                    store = WritableStore()
                    store._values[uid] = value
                    self._stores[key] = store
                else:
                    store._values[uid] = value
            self._remove(uid, old_keys - new_keys)
            if new_keys:
                self._keys[uid] = new_keys
            else:
                self._keys.pop(uid, None)

    def _discard(self, uid: str) -> None:
        """Forget the object."""
        with self._lock:
            self._remove(uid, self._keys.pop(uid, ()))

    def _remove(self, uid: str, keys: Iterable[_K]) -> None:
        for key in keys:
            store = self._stores[key]
            if len(store._values) > 1:
                del store._values[uid]
            else:
                # A reader that holds the store can still iterate it.
                del self._stores[key]
                store._values = {}


class Indices(Mapping[str, WritableIndex[Any, Any]]):
    """All indices of an operator by their names. All its handlers get them as kwargs."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._indices: dict[str, WritableIndex[Any, Any]] = {}
        self._ensure(ids)

    def __len__(self) -> int:
        return len(self._indices)

    def __iter__(self) -> Iterator[str]:
        return iter(self._indices)

    def __contains__(self, id: object) -> bool:
        return id in self._indices

    def __getitem__(self, id: str) -> WritableIndex[Any, Any]:
        return self._indices[id]

    def _ensure(self, ids: Iterable[str]) -> None:
        for id in ids:
            if id not in self._indices:
                self._indices[id] = WritableIndex()

    def _keep(self, id: str, uid: str, result: Any) -> None:
        """Store what an index function has returned for an object."""
        values = result if isinstance(result, Mapping) else {None: result}
        self._indices[id]._replace(uid, values)

    def _forget(self, uid: str, ids: Iterable[str]) -> None:
        for id in ids:
            self._indices[id]._discard(uid)

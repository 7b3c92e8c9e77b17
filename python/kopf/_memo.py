"""What handlers keep in memory: `memo` of an object, and the read-only indices."""
from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Generic, TypeVar

_K = TypeVar('_K')
_V = TypeVar('_V')


class Memo(dict[Any, Any]):
    """A dict whose string keys are also attributes: `memo.x` is `memo['x']`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(str(error)) from error

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError as error:
            raise AttributeError(str(error)) from error


AnyMemo = object


class Store(Collection[_V], Generic[_V]):
    """All the values of one key of an index, in no particular order."""


class Index(Mapping[_K, Store[_V]], Generic[_K, _V]):
    """An index of the values that an indexing handler has returned for all objects."""


Indices = Mapping[str, Index[Any, Any]]

"""What handlers keep in memory: `memo` of an object, and the read-only indices."""
from __future__ import annotations

import copy
import weakref
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from kopf._native import Cycle, Keeper

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


class _Forgettable(weakref.ref):  # type: ignore[type-arg]
    """An empty memo, for as long as anybody else uses it; then there is nothing to remember."""

    # Not the cycle: its context holds the memo.
    __slots__ = ('_keeper',)

    def __new__(cls, memo: Memo, keeper: Keeper) -> _Forgettable:
        return super().__new__(cls, memo, cls._forget)

    def __init__(self, memo: Memo, keeper: Keeper) -> None:
        super().__init__(memo, _Forgettable._forget)  # type: ignore[call-arg]
        self._keeper = keeper

    def _forget(self) -> None:
        keeper = self._keeper
        if keeper.memory is self:
            keeper.memory = None


def copy_memo(memo: Any) -> Any:
    """The memo of a new object, made of the memo of the operator."""
    # The usual one is quicker to copy than to find out how to copy it.
    return Memo(memo) if type(memo) is Memo else copy.copy(memo)


def recall_memo(cycle: Cycle) -> Any | None:
    """The memo of the object; None if there is nothing in it."""
    memo = cycle.memory
    return memo() if isinstance(memo, _Forgettable) else memo


def spare_memo(memo: Any, keeper: Keeper) -> None:
    """Do not keep a memo in which there is nothing: there may be thousands of them.

    If it is still in use, by another handler or by the user, then it stays the same for all.
    """
    if type(memo) is Memo:
        keeper.memory = memo if len(memo) else _Forgettable(memo, keeper)


class Store(Collection[_V], Generic[_V]):
    """All the values of one key of an index, in no particular order."""


class Index(Mapping[_K, Store[_V]], Generic[_K, _V]):
    """An index of the values that an indexing handler has returned for all objects."""


Indices = Mapping[str, Index[Any, Any]]

"""What handlers keep in memory: `memo` of an object, and the read-only indices."""
from __future__ import annotations

import copy
import threading
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from kopf._native import Keeper

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


class ObjectMemo:
    """The memo of one object: made when a function first asks for it, then the same for its life.

    The engine keeps it with the object. There may be many thousands of objects, and most functions
    never ask for their memos.
    """

    __slots__ = ('_keeper', '_memos', '_uid')

    # Neither the cycle nor the review: these refer to their contexts, which refer to this.
    def __init__(self, memos: Memos, keeper: Keeper, uid: str | None) -> None:
        self._memos = memos
        self._keeper = keeper
        self._uid = uid

    def get(self) -> Any:
        memo = self._keeper.memory
        return memo if memo is not None else self._memos._make(self._keeper, self._uid)


class ReviewedMemo(ObjectMemo):
    """The memo of an object under review, which the engine may not know yet."""

    __slots__ = ()

    def get(self) -> Any:
        memo = self._keeper.memory
        return memo if memo is not None else self._memos._make_for_review(self._keeper, self._uid)


class Memos:
    """The memos of one operator: how they are made, and those that have no object yet."""

    def __init__(self, base: Any) -> None:
        self.base = base
        #: By uids: of objects that were reviewed, but did not come with the watch-streams so far.
        self._reviewed: dict[str, Any] = {}
        self._lock = threading.Lock()  # for whoever asks in a thread of its own

    def _make(self, keeper: Keeper, uid: str | None) -> Any:
        with self._lock:
            memo = keeper.memory
            if memo is None:
                memo = self._reviewed.pop(uid or '', None)
                memo = keeper.memory = memo if memo is not None else copy_memo(self.base)
            return memo

    def _make_for_review(self, keeper: Keeper, uid: str | None) -> Any:
        """Objects that are only being created, may never exist: nothing is kept for them."""
        with self._lock:
            memo = keeper.memory
            if memo is None:
                memo = self._reviewed.pop(uid, None) if uid else None
                memo = keeper.memory = memo if memo is not None else copy_memo(self.base)
                if uid:
                    self._reviewed[uid] = memo  # the latest is the last
                    if len(self._reviewed) > MAX_REVIEWED:
                        del self._reviewed[next(iter(self._reviewed))]
            return memo


#: Objects of kinds that are reviewed but not watched are never seen to be deleted.
MAX_REVIEWED = 10_000


def copy_memo(memo: Any) -> Any:
    """The memo of a new object, made of the memo of the operator."""
    # The usual one is quicker to copy than to find out how to copy it.
    return Memo(memo) if type(memo) is Memo else copy.copy(memo)


class Store(Collection[_V], Generic[_V]):
    """All the values of one key of an index, in no particular order."""


class Index(Mapping[_K, Store[_V]], Generic[_K, _V]):
    """An index of the values that an indexing handler has returned for all objects."""


Indices = Mapping[str, Index[Any, Any]]

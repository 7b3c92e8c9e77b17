"""The `memo` of each object: what handlers keep in memory between their calls."""
from __future__ import annotations

import copy
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf._native import ObjectMemory


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
    """The memo of one object: created at the first use, then kept as long as the object exists.

    The engine keeps it with the object. There may be many thousands of objects, and most functions
    never use their memos.
    """

    __slots__ = ('_memory', '_memos', '_uid')

    # It must not refer to the cycle or the review: they refer to their contexts, and these to this.
    def __init__(self, memos: Memos, memory: ObjectMemory, uid: str | None) -> None:
        self._memos = memos
        self._memory = memory
        self._uid = uid

    def get(self) -> Any:
        memo = self._memory.memo
        return memo if memo is not None else self._memos._make(self._memory, self._uid)


class ReviewedMemo(ObjectMemo):
    """The memo of an object under review. The engine may not know the object yet."""

    __slots__ = ()

    def get(self) -> Any:
        memo = self._memory.memo
        return memo if memo is not None else self._memos._make_for_review(self._memory, self._uid)


class Memos:
    """The memos of one operator: creates them, and keeps those that have no object yet."""

    def __init__(self, base: Any) -> None:
        self.base = base
        #: By uids: memos of reviewed objects that have not appeared in a watch stream so far.
        self._reviewed: dict[str, Any] = {}
        self._lock = threading.Lock()  # handlers in threads create memos, too

    def _make(self, memory: ObjectMemory, uid: str | None) -> Any:
        with self._lock:
            memo = memory.memo
            if memo is None:
                memo = self._reviewed.pop(uid or '', None)
                memo = memory.memo = memo if memo is not None else copy_memo(self.base)
            return memo

    def _make_for_review(self, memory: ObjectMemory, uid: str | None) -> Any:
        """An object that is being created (without a uid) may never exist: keep nothing for it."""
        with self._lock:
            memo = memory.memo
            if memo is None:
                memo = self._reviewed.pop(uid, None) if uid else None
                memo = memory.memo = memo if memo is not None else copy_memo(self.base)
                if uid:
                    self._reviewed[uid] = memo  # the latest is the last
                    if len(self._reviewed) > MAX_REVIEWED:
                        del self._reviewed[next(iter(self._reviewed))]
            return memo


#: If a resource is reviewed but not watched, Kopf never sees that its objects are deleted.
MAX_REVIEWED = 10_000


def copy_memo(memo: Any) -> Any:
    """Make the memo of a new object from the memo of the operator."""
    # Copying the usual class directly is faster than the search for a way to copy.
    return Memo(memo) if type(memo) is Memo else copy.copy(memo)

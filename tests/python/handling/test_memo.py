"""Memos: one per object for its life, also if reviews have seen the object first."""
from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from kopf._objects.memos import Memo, Memos, ObjectMemo, ReviewedMemo, copy_memo
from tests.python.fake_native import ObjectMemory


def of_object(memos: Memos, memory: ObjectMemory | None = None, uid: str = 'u') -> Any:
    return ObjectMemo(memos, memory or ObjectMemory(), uid).get()  # type: ignore[arg-type]


def of_review(memos: Memos, memory: ObjectMemory | None = None, uid: str | None = 'u') -> Any:
    return ReviewedMemo(memos, memory or ObjectMemory(), uid).get()  # type: ignore[arg-type]


class OwnMemo(Memo):
    """A memo with its own way to be copied."""

    def __copy__(self) -> OwnMemo:
        return OwnMemo(self, copied=True)


@pytest.mark.parametrize('memo, expected', [
    (Memo(a=[1]), Memo(a=[1])),
    (OwnMemo(a=1), OwnMemo(a=1, copied=True)),
    ([1, 2], [1, 2]),
])
def test_memos_are_copied_for_each_object(memo: Any, expected: Any) -> None:
    copied = copy_memo(memo)
    assert copied == expected and type(copied) is type(memo) and copied is not memo


def test_empty_memos_stay_the_same() -> None:
    """Somebody may have it in hand, and write to it later."""
    memos, memory = Memos(Memo()), ObjectMemory()
    memo = of_object(memos, memory)
    assert memo == {} and type(memo) is Memo and memory.memo is memo
    del memo
    gc.collect()
    of_object(memos, memory).x = 1
    assert of_object(memos, memory) == {'x': 1}
    assert of_review(memos, memory) is of_object(memos, memory)


def test_nothing_is_kept_for_those_who_do_not_ask() -> None:
    memory = ObjectMemory()
    ObjectMemo(Memos(Memo()), memory, 'u')  # type: ignore[arg-type]
    assert memory.memo is None


def test_threads_get_the_same_memo() -> None:
    class SlowCopy(Memo):
        def __copy__(self) -> SlowCopy:
            barrier.wait(0.1) if barrier.n_waiting else None
            return SlowCopy(self)

    barrier = threading.Barrier(2)
    memos, memory, found = Memos(SlowCopy()), ObjectMemory(), []
    threads = [threading.Thread(target=lambda: found.append(of_object(memos, memory)))
               for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(memo is memory.memo for memo in found) and len(found) == 8


def test_objects_that_may_never_exist_leave_nothing_behind() -> None:
    memos = Memos(Memo())
    of_review(memos, uid=None).x = 1
    assert of_review(memos, uid=None) == {} and not memos._reviewed


def test_objects_known_by_reviews_only() -> None:
    """Their kinds may have no other handlers, or the watch-stream is late."""
    memos = Memos(Memo(base=1))
    of_review(memos).x = 1
    assert of_review(memos) == {'base': 1, 'x': 1}
    assert of_review(memos, uid='v') == {'base': 1}
    memory = ObjectMemory()
    assert of_object(memos, memory) == {'base': 1, 'x': 1}
    assert of_review(memos, memory) is of_object(memos, memory)
    assert list(memos._reviewed) == ['v']


def test_objects_known_by_reviews_only_are_forgotten_in_the_end(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('kopf._objects.memos.MAX_REVIEWED', 2)
    memos = Memos(Memo())
    for uid in ('a', 'b', 'a', 'c'):
        of_review(memos, uid=uid)
    assert list(memos._reviewed) == ['a', 'c']

"""Indices as handlers see them: read-only mappings of stores, also while they change."""
from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Any

import pytest

import kopf
from kopf._objects.indices import Indices, WritableIndex


def content(index: Mapping[Any, Collection[Any]]) -> dict[Any, list[Any]]:
    return {key: sorted(store) for key, store in index.items()}


def test_what_functions_return() -> None:
    indices = Indices(['index'])
    index = indices['index']
    assert isinstance(index, kopf.Index) and not index and len(index) == 0
    indices._keep('index', 'uid1', {'x': 1, ('a', 'b'): 2})
    indices._keep('index', 'uid2', {'x': 3})
    indices._keep('index', 'uid3', 'plain')
    indices._keep('index', 'uid4', ['list'])
    assert content({key: index[key] for key in ('x', ('a', 'b'))}) == {'x': [1, 3], ('a', 'b'): [2]}
    assert list(index[None]) == ['plain', ['list']]
    assert isinstance(index['x'], kopf.Store) and len(index['x']) == 2 and bool(index['x'])
    assert 3 in index['x'] and 4 not in index['x'] and 'x' in index and 'y' not in index
    assert repr(index['x']) == '[1, 3]' and repr(index).startswith("{'x': [1, 3]")
    assert index.get('y') is None
    with pytest.raises(KeyError):
        index['y']


def test_values_move_and_empty_keys_vanish() -> None:
    indices = Indices(['index', 'other'])
    index = indices['index']
    indices._keep('index', 'uid', {'x': 1, 'y': 2})
    indices._keep('other', 'uid', 'stays')
    store = index['x']
    indices._keep('index', 'uid', {'y': 3, 'z': 4})
    assert content(index) == {'y': [3], 'z': [4]}
    assert list(store) == [] and not store
    indices._keep('index', 'uid', {})
    assert not index
    indices._keep('index', 'uid', {'x': 5})
    indices._forget('uid', ['index'])
    indices._forget('unknown', ['index', 'other'])
    assert not index and list(indices['other'][None]) == ['stays']


def test_nothing_can_be_changed_from_outside() -> None:
    index: Any = Indices(['index'])['index']
    with pytest.raises(TypeError):
        index['x'] = 1
    with pytest.raises(TypeError):
        del index['x']


def test_threads_read_while_it_changes() -> None:
    """Neither errors of iteration nor half-made changes are ever seen."""
    index: WritableIndex[int, str] = WritableIndex()
    stop = threading.Event()
    errors: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                for key in index:
                    for value in index.get(key, ()):
                        assert value.startswith('uid')
                repr(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(3000):
        index._replace(f'uid{number % 50}', {number % 7: f'uid{number}', 'all': f'uid{number}'})
        if number % 3 == 0:
            index._discard(f'uid{number % 41}')
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []

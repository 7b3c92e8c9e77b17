"""Indices as they are before indexing handlers are served: present, and empty."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from kopf._memo import Index


class EmptyIndex(Index[Any, Any]):
    """An index with nothing in it."""

    def __getitem__(self, key: Any) -> NoReturn:
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return '{}'

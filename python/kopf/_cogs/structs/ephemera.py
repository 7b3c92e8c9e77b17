"""Memos and indices. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._objects.memos import AnyMemo, Index, Indices, Memo, Store

__all__ = [
    'AnyMemo', 'Index', 'Indices', 'Memo', 'Store',
]

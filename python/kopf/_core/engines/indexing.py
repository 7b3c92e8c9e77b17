"""Indices. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._indices import Index, Store
from kopf._indices import Indices as OperatorIndices

__all__ = [
    'Index', 'OperatorIndices', 'Store',
]

"""Indices. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._objects.indices import Index, Store
from kopf._objects.indices import Indices as OperatorIndices

__all__ = [
    'Index', 'OperatorIndices', 'Store',
]

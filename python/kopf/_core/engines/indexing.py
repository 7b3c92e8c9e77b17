"""Indices. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._memo import Index, Store

__all__ = [
    'Index', 'Store',
]

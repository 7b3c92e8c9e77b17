"""Selector mappings. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._declare.settings import SelectorMapping

__all__ = [
    'SelectorMapping',
]

"""Filters. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._declare.filters import ABSENT, PRESENT, MetaFilterToken

__all__ = [
    'ABSENT',
    'PRESENT',
    'MetaFilterToken',
]

"""Combinators. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._declare.filters import all_, any_, none_, not_

__all__ = [
    'all_', 'any_', 'none_', 'not_',
]

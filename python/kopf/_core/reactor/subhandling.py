"""Sub-handlers. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._call.subhandlers import execute

__all__ = [
    'execute',
]

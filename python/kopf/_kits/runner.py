"""The runner for tests. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._testing.runner import KopfRunner

__all__ = [
    'KopfRunner',
]

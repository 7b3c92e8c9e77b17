"""Loading of files. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._cli.preload import preload

__all__ = [
    'preload',
]

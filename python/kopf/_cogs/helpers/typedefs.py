"""Types. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._objects.typedefs import Logger

__all__ = [
    'Logger',
]

"""Activity errors. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._errors import ActivityError

__all__ = [
    'ActivityError',
]

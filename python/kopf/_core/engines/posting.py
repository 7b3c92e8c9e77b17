"""Events. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._call.context import settings_var
from kopf._call.posting import K8sPoster, event, exception, info, warn

__all__ = [
    'K8sPoster', 'event', 'exception', 'info', 'settings_var', 'warn',
]

"""Stoppers of daemons. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._call.stoppers import (
    AsyncDaemonStopperChecker,
    DaemonStopped,
    DaemonStopper,
    DaemonStoppingReason,
    SyncDaemonStopperChecker,
)

__all__ = [
    'AsyncDaemonStopperChecker', 'DaemonStopped', 'DaemonStopper', 'DaemonStoppingReason',
    'SyncDaemonStopperChecker',
]

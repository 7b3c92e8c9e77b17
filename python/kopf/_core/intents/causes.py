"""Causes. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._call.causes import (
    ActivityCause,
    ChangingCause,
    DaemonCause,
    IndexingCause,
    ResourceCause,
    SpawningCause,
    WatchingCause,
    WebhookCause,
)
from kopf._call.causes import Cause as BaseCause
from kopf._declare.handlers import Activity, Reason, WebhookType

HANDLER_REASONS = (Reason.CREATE, Reason.UPDATE, Reason.DELETE, Reason.RESUME)
REACTOR_REASONS = (Reason.NOOP, Reason.FREE, Reason.GONE)
ALL_REASONS = HANDLER_REASONS + REACTOR_REASONS

__all__ = [
    'ALL_REASONS', 'HANDLER_REASONS', 'REACTOR_REASONS',
    'Activity', 'ActivityCause', 'BaseCause', 'ChangingCause', 'DaemonCause', 'IndexingCause',
    'Reason', 'ResourceCause', 'SpawningCause', 'WatchingCause', 'WebhookCause', 'WebhookType',
]

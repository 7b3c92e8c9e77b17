"""Handlers. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._declare.handlers import (
    ActivityHandler,
    ChangingHandler,
    DaemonHandler,
    IndexingHandler,
    ResourceHandler,
    SpawningHandler,
    TimerHandler,
    WatchingHandler,
    WebhookHandler,
)

__all__ = [
    'ActivityHandler', 'ChangingHandler', 'DaemonHandler', 'IndexingHandler', 'ResourceHandler',
    'SpawningHandler', 'TimerHandler', 'WatchingHandler', 'WebhookHandler',
]

"""Registries. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._declare.registries import (
    ActivityRegistry,
    ChangingRegistry,
    IndexingRegistry,
    OperatorRegistry,
    SmartOperatorRegistry,
    SpawningRegistry,
    WatchingRegistry,
    WebhooksRegistry,
    generate_id,
    get_callable_id,
    get_default_registry,
    set_default_registry,
)

__all__ = [
    'ActivityRegistry', 'ChangingRegistry', 'IndexingRegistry', 'OperatorRegistry',
    'SmartOperatorRegistry', 'SpawningRegistry', 'WatchingRegistry', 'WebhooksRegistry',
    'generate_id', 'get_callable_id', 'get_default_registry', 'set_default_registry',
]

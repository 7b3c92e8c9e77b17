"""Lifecycles. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf.lifecycles import (
    Handlers,
    all_at_once,
    asap,
    get_default_lifecycle,
    one_by_one,
    randomized,
    set_default_lifecycle,
    shuffled,
)

__all__ = [
    'Handlers', 'all_at_once', 'asap', 'get_default_lifecycle', 'one_by_one', 'randomized',
    'set_default_lifecycle', 'shuffled',
]

"""Hierarchies. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._call.hierarchies import (
    adjust_namespace,
    adopt,
    append_owner_reference,
    harmonize_naming,
    label,
    remove_owner_reference,
)

__all__ = [
    'adjust_namespace', 'adopt', 'append_owner_reference', 'harmonize_naming', 'label',
    'remove_owner_reference',
]

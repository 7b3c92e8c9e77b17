"""Conventions of storages. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._storage.cleaning import StorageStanzaCleaner
from kopf._storage.keys import (
    CollisionEvadingConvention,
    StorageKeyFormingConvention,
    StorageKeyMarkingConvention,
)

__all__ = [
    'CollisionEvadingConvention', 'StorageKeyFormingConvention', 'StorageKeyMarkingConvention',
    'StorageStanzaCleaner',
]

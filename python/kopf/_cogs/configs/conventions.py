"""Conventions of storages. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._objects.storage.cleaning import StorageStanzaCleaner
from kopf._objects.storage.keys import (
    CollisionEvadingConvention,
    StorageKeyFormingConvention,
    StorageKeyMarkingConvention,
)

__all__ = [
    'CollisionEvadingConvention', 'StorageKeyFormingConvention', 'StorageKeyMarkingConvention',
    'StorageStanzaCleaner',
]

"""Diff-base storages. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._objects.storage.diffbase import (
    AnnotationsDiffBaseStorage,
    DiffBaseStorage,
    MultiDiffBaseStorage,
    StatusDiffBaseStorage,
)

__all__ = [
    'AnnotationsDiffBaseStorage', 'DiffBaseStorage', 'MultiDiffBaseStorage',
    'StatusDiffBaseStorage',
]

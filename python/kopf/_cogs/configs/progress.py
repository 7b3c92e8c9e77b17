"""Progress storages. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._storage.progress import (
    AnnotationsProgressStorage,
    MultiProgressStorage,
    ProgressStorage,
    SmartProgressStorage,
    StatusProgressStorage,
)
from kopf._types import ProgressRecord

__all__ = [
    'AnnotationsProgressStorage', 'MultiProgressStorage', 'ProgressRecord', 'ProgressStorage',
    'SmartProgressStorage', 'StatusProgressStorage',
]

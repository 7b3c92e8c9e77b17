"""Progress storages. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._objects.storage.progress import (
    AnnotationsProgressStorage,
    MultiProgressStorage,
    ProgressStorage,
    SmartProgressStorage,
    StatusProgressStorage,
)
from kopf._objects.typedefs import ProgressRecord

__all__ = [
    'AnnotationsProgressStorage', 'MultiProgressStorage', 'ProgressRecord', 'ProgressStorage',
    'SmartProgressStorage', 'StatusProgressStorage',
]

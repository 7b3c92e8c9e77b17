"""Storages as data for the engine. The type 'front' means: call the user's class in Python."""
from __future__ import annotations

from typing import Any

from kopf._objects.fields import parse_field
from kopf._objects.storage.diffbase import (
    AnnotationsDiffBaseStorage,
    DiffBaseStorage,
    MultiDiffBaseStorage,
    StatusDiffBaseStorage,
)
from kopf._objects.storage.progress import (
    AnnotationsProgressStorage,
    MultiProgressStorage,
    NoWriteStatusProgressStorage,
    ProgressStorage,
    SmartProgressStorage,
    StatusProgressStorage,
)

# The types are compared exactly: a subclass may have overridden anything.
_FRONT = {'type': 'front'}


def describe_progress(storage: ProgressStorage) -> dict[str, Any]:
    cls = type(storage)
    if isinstance(storage, AnnotationsProgressStorage) and cls is AnnotationsProgressStorage:
        return {'type': 'annotations', 'prefix': storage.prefix, 'verbose': storage.verbose,
                'touch_key': storage.touch_key, 'v1': storage.v1}
    if isinstance(storage, StatusProgressStorage) and cls in (
            StatusProgressStorage, NoWriteStatusProgressStorage):
        return {'type': 'status', 'name': storage._name, 'field': list(storage.field),
                'touch_field': list(storage.touch_field), 'write': cls is StatusProgressStorage}
    if isinstance(storage, MultiProgressStorage) and cls in (
            MultiProgressStorage, SmartProgressStorage):
        return _multi([describe_progress(item) for item in storage.storages])
    return _FRONT


def describe_diffbase(storage: DiffBaseStorage) -> dict[str, Any]:
    cls = type(storage)
    ignored = [list(parse_field(field)) for field in storage.ignored_fields] \
        if hasattr(storage, 'ignored_fields') else []
    if isinstance(storage, AnnotationsDiffBaseStorage) and cls is AnnotationsDiffBaseStorage:
        return {'type': 'annotations', 'prefix': storage.prefix, 'key': storage.key,
                'ignored_fields': ignored, 'v1': storage.v1}
    if isinstance(storage, StatusDiffBaseStorage) and cls is StatusDiffBaseStorage:
        return {'type': 'status', 'field': list(storage.field), 'ignored_fields': ignored}
    if isinstance(storage, MultiDiffBaseStorage) and cls is MultiDiffBaseStorage:
        return _multi([describe_diffbase(item) for item in storage.storages])
    return _FRONT


def _multi(storages: list[dict[str, Any]]) -> dict[str, Any]:
    # If one storage is a user's class, Python serves the whole set, in its order.
    return _FRONT if _FRONT in storages else {'type': 'multi', 'storages': storages}

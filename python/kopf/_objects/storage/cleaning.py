"""Removing from an essence what storages have put on the object, and what became empty."""
from __future__ import annotations

from collections.abc import Collection
from typing import Any


class StorageStanzaCleaner:
    """The common part of all storages."""

    @staticmethod
    def remove_annotations(essence: Any, keys_to_remove: Collection[str]) -> None:
        annotations = (essence.get('metadata') or {}).get('annotations') or {}
        if any(key in annotations for key in keys_to_remove):
            essence['metadata']['annotations'] = {
                key: value for key, value in annotations.items() if key not in keys_to_remove
            }

    @staticmethod
    def remove_empty_stanzas(essence: Any) -> None:
        metadata = essence.get('metadata') or {}
        for name in ('annotations', 'labels'):
            if name in metadata and not metadata[name]:
                del metadata[name]
        for name in ('metadata', 'status'):
            if name in essence and not essence[name]:
                del essence[name]

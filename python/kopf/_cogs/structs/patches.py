"""Patches. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._patch import JSONPatch, JSONPatchItem, MetaPatch, Patch, SpecPatch, StatusPatch
from kopf._types import PatchFn

__all__ = [
    'JSONPatch', 'JSONPatchItem', 'MetaPatch', 'Patch', 'PatchFn', 'SpecPatch', 'StatusPatch',
]

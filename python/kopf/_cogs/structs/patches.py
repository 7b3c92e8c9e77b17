"""Patches. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._objects.patches import JSONPatch, JSONPatchItem, MetaPatch, Patch, SpecPatch, StatusPatch
from kopf._objects.typedefs import PatchFn

__all__ = [
    'JSONPatch', 'JSONPatchItem', 'MetaPatch', 'Patch', 'PatchFn', 'SpecPatch', 'StatusPatch',
]

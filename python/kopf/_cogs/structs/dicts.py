"""Fields and views. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._objects.fields import (
    FieldPath,
    FieldSpec,
    cherrypick,
    ensure,
    parse_field,
    remove,
    resolve,
    walk,
)
from kopf._objects.fields import resolve_object as resolve_obj
from kopf._objects.views import MappingView, MutableMappingView, ReplaceableMappingView

__all__ = [
    'FieldPath', 'FieldSpec', 'MappingView', 'MutableMappingView', 'ReplaceableMappingView',
    'cherrypick', 'ensure', 'parse_field', 'remove', 'resolve', 'resolve_obj', 'walk',
]

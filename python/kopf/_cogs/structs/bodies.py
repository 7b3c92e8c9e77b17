"""Objects. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._objects.typedefs import (
    BodyEssence,
    MetaEssence,
    ObjectReference,
    OwnerReference,
    RawBody,
    RawError,
    RawEvent,
    RawEventType,
    RawInput,
    RawInputType,
    RawMeta,
)
from kopf._objects.views import (
    Annotations,
    Body,
    Labels,
    Meta,
    Spec,
    Status,
    build_object_reference,
    build_owner_reference,
)

__all__ = [
    'Annotations', 'Body', 'BodyEssence', 'Labels', 'Meta', 'MetaEssence', 'ObjectReference',
    'OwnerReference', 'RawBody', 'RawError', 'RawEvent', 'RawEventType', 'RawInput',
    'RawInputType', 'RawMeta', 'Spec', 'Status', 'build_object_reference',
    'build_owner_reference',
]

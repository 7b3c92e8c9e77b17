"""Resources. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._objects.resources import (
    EVERYTHING,
    Marker,
    Namespace,
    NamespaceName,
    NamespacePattern,
    Resource,
    Selector,
    match_namespace,
    select_specific_namespaces,
)

__all__ = [
    'EVERYTHING', 'Marker', 'Namespace', 'NamespaceName', 'NamespacePattern', 'Resource',
    'Selector', 'match_namespace', 'select_specific_namespaces',
]

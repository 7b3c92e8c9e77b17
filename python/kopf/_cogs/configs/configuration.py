"""Settings. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._declare.settings import (
    AdmissionSettings,
    BackgroundSettings,
    ExecutionSettings,
    NetworkingSettings,
    OperatorSettings,
    PeeringSettings,
    PersistenceSettings,
    PostingSettings,
    ProcessSettings,
    QueueingSettings,
    ScanningSettings,
    WatchingSettings,
)

__all__ = [
    'AdmissionSettings', 'BackgroundSettings', 'ExecutionSettings', 'NetworkingSettings',
    'OperatorSettings', 'PeeringSettings', 'PersistenceSettings', 'PostingSettings',
    'ProcessSettings', 'QueueingSettings', 'ScanningSettings', 'WatchingSettings',
]

"""Credentials. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._connect.credentials import AiohttpSession, ConnectionInfo, KubeContext, Vault
from kopf._errors import LoginError

__all__ = [
    'AiohttpSession', 'ConnectionInfo', 'KubeContext', 'LoginError', 'Vault',
]

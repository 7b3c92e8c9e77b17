"""Logins. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._connect.logins import (
    has_kubeconfig,
    has_service_account,
    login_via_async_client,
    login_via_client,
    login_via_pykube,
    login_with_kubeconfig,
    login_with_service_account,
)

__all__ = [
    'has_kubeconfig', 'has_service_account', 'login_via_async_client', 'login_via_client',
    'login_via_pykube', 'login_with_kubeconfig', 'login_with_service_account',
]

"""Admission types. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._objects.typedefs import (
    Headers,
    Operation,
    SSLPeer,
    UserInfo,
    WebhookClientConfig,
    WebhookClientConfigService,
    WebhookFn,
    WebhookServerProtocol,
)

__all__ = [
    'Headers', 'Operation', 'SSLPeer', 'UserInfo', 'WebhookClientConfig',
    'WebhookClientConfigService', 'WebhookFn', 'WebhookServerProtocol',
]

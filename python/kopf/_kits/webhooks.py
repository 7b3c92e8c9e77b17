"""Webhook servers. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._webhooks.servers import (
    WebhookAutoServer,
    WebhookAutoTunnel,
    WebhookDockerDesktopServer,
    WebhookK3dServer,
    WebhookMinikubeServer,
    WebhookNgrokTunnel,
    WebhookServer,
)

__all__ = [
    'WebhookAutoServer', 'WebhookAutoTunnel', 'WebhookDockerDesktopServer', 'WebhookK3dServer',
    'WebhookMinikubeServer', 'WebhookNgrokTunnel', 'WebhookServer',
]

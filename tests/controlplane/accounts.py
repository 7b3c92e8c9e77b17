"""Service accounts with restricted permissions, for the tests of RBAC in ``tests/real``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.controlplane.plane import ControlPlane
from tests.support.client import Client


@contextlib.contextmanager
def temporary_account(
    plane: ControlPlane,
    namespace: str,
    name: str,
    *,
    rules: list[dict[str, Any]],
    cluster_rules: list[dict[str, Any]],
) -> Iterator[Client]:
    """A service account with exactly these permissions, in its namespace and in the cluster."""
    admin, rbac, unique = plane.client, '/apis/rbac.authorization.k8s.io/v1', f'{namespace}-{name}'
    subjects = [{'kind': 'ServiceAccount', 'name': name, 'namespace': namespace}]
    accounts = f'/api/v1/namespaces/{namespace}/serviceaccounts'
    admin.create(accounts, {'metadata': {'name': name}})
    for kind, prefix, granted in (
        ('Role', f'{rbac}/namespaces/{namespace}/', rules),
        ('ClusterRole', f'{rbac}/', cluster_rules),
    ):
        admin.create(f'{prefix}{kind.lower()}s', {'metadata': {'name': unique}, 'rules': granted})
        admin.create(
            f'{prefix}{kind.lower()}bindings',
            {
                'metadata': {'name': unique},
                'subjects': subjects,
                'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': kind, 'name': unique},
            },
        )
    try:
        answer = admin.create(f'{accounts}/{name}/token', {'spec': {'expirationSeconds': 3600}})
        yield admin.as_token(answer['status']['token'])
    finally:
        for kind in 'clusterrolebindings', 'clusterroles':
            admin.delete(f'{rbac}/{kind}/{unique}')

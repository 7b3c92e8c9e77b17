"""The objects that most tests create: of the kind KopfExample, each test in its own namespace.

The CRD is one of those in ``tests/support/crds``, which every cluster of the tests has.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from tests.support.client import Client, wait_for


class ExampleObjects:
    """Objects of one kind in one namespace."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        plural: str = 'kopfexamples',
        kind: str = 'KopfExample',
    ) -> None:
        self.client = client
        self.kind = kind
        self.path = f'/apis/kopf.dev/v1/namespaces/{namespace}/{plural}'

    def create(self, name: str, **fields: Any) -> Any:
        metadata = {'name': name, **fields.pop('metadata', {})}
        return self.client.create(
            self.path,
            {
                'apiVersion': 'kopf.dev/v1',
                'kind': self.kind,
                'metadata': metadata,
                'spec': {},
                **fields,
            },
        )

    def patch(self, name: str, patch: Any) -> Any:
        return self.client.patch(f'{self.path}/{name}', patch)

    def delete(self, name: str) -> None:
        self.client.delete(f'{self.path}/{name}')

    def get(self, name: str) -> Any:
        return self.client.find(f'{self.path}/{name}')

    def list(self) -> list[Any]:
        return self.client.get(self.path)['items']

    def wait(self, name: str, check: Callable[[Any], Any], **options: Any) -> Any:
        """Wait until the object exists and passes the check, and return it."""

        def seen() -> Any:
            body = self.get(name)
            try:
                return body if body is not None and check(body) else None
            except (KeyError, TypeError):
                return None  # The fields of the condition are not there yet.

        return wait_for(lambda: f'{name} as expected; it is {self.get(name)}', seen, **options)

    def wait_gone(self, name: str, **options: Any) -> None:
        wait_for(
            lambda: f'{name} is gone; it is {self.get(name)}',
            lambda: self.get(name) is None,
            **options,
        )


def new_namespace(client: Client, prefix: str) -> str:
    name = f'{prefix}-{secrets.token_hex(4)}'
    client.create('/api/v1/namespaces', {'metadata': {'name': name}})
    return name


def remove_namespace(client: Client, name: str) -> None:
    """Start the removal of a namespace, and remove the finalizers of operators that run no more, as
    they would block it.
    """
    for plural in 'kopfexamples', 'kopfstatuses', 'kopfstricts':
        path = f'/apis/kopf.dev/v1/namespaces/{name}/{plural}'
        for item in client.get(path)['items']:
            if item['metadata'].get('finalizers'):
                client.patch(
                    f'{path}/{item["metadata"]["name"]}', {'metadata': {'finalizers': None}}
                )
    client.delete(f'/api/v1/namespaces/{name}')

"""The webhooks of one test: an operator that manages them, and the cluster that asks it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.client import ApiError, wait_for
from tests.support.operator_process import OperatorProcess
from tests.support.plane import Plane

StartOperator = Callable[..., OperatorProcess]

CONFIGURATIONS = '/apis/admissionregistration.k8s.io/v1'

#: Only the objects of the test are asked about, as other tests run on the same cluster.
HEADER = """
import os, kopf
LABELS = {'admitted-by': os.environ['MANAGED']}

@kopf.on.startup()
def configure(settings, **_):
    settings.admission.server = kopf.WebhookServer()
    settings.admission.managed = os.environ['MANAGED']
"""


class Webhooks:
    """The managed configurations of one test."""

    def __init__(self, plane: Plane, namespace: str, start: StartOperator) -> None:
        self.client = plane.client
        self.name = f'{namespace}.kopf.dev'
        self.labels = {'admitted-by': self.name}
        self.path = f'/apis/kopf.dev/v1/namespaces/{namespace}/kopfexamples'
        self.process: OperatorProcess | None = None
        self._start = start
        self._probes = 0

    def start(self, script: str, *options: str, header: str = HEADER) -> OperatorProcess:
        self.process = self._start(header + script, *options, env={'MANAGED': self.name})
        return self.process

    def configured(self, webhook_type: str = 'validating') -> list[Any] | None:
        path = f'{CONFIGURATIONS}/{webhook_type}webhookconfigurations/{self.name}'
        found = self.client.find(path)
        return None if found is None else found.get('webhooks', [])

    def wait_asked(
        self,
        handler: str,
        webhook_type: str = 'validating',
        count: int = 1,
        kind: str = 'KopfExample',
    ) -> None:
        """A real cluster takes a moment until it asks: shown by creations that are not stored."""

        def asked() -> bool:
            self._probes += 1
            name = f'probe-{self._probes}'
            body = {'apiVersion': 'kopf.dev/v1', 'kind': kind, 'spec': {},
                    'metadata': {'name': name, 'labels': self.labels}}
            with contextlib.suppress(ApiError):
                self.client.create(f'{self.path}?dryRun=All', body)
            assert self.process is not None
            return self.process.count(f'/{name}]', f"Webhook '{handler}'") > 0

        self.wait(webhook_type, count)
        wait_for(f'the cluster asks {handler}', asked)

    def wait(self, webhook_type: str = 'validating', count: int = 1) -> list[Any]:
        def seen() -> Any:
            webhooks = self.configured(webhook_type)
            return webhooks if webhooks is not None and len(webhooks) == count else None

        if count == 0:
            wait_for('the webhooks are gone', lambda: self.configured(webhook_type) == [])
            return []
        return wait_for(lambda: f'{count} webhooks: {self.configured(webhook_type)}', seen)

    def remove(self) -> None:
        for webhook_type in 'validating', 'mutating':
            self.client.delete(f'{CONFIGURATIONS}/{webhook_type}webhookconfigurations/{self.name}')


def refused(action: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        action()
    return caught.value.status, json.loads(caught.value.text)['message']

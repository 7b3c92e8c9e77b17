"""The world of one run of one scenario: a namespace, an operator in it, and what the story does to
them.

A story talks only to this class. It never sleeps: each wait has a condition and a time-out. That
something does not happen is shown by a sentinel: an object created after it, which is handled while
nothing else is.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from cluster_client import ApiError, Client, kubeconfig, wait_for
from cluster_fixtures import new_namespace, remove_namespace
from controlplane import ControlPlane
from operator_process import OperatorProcess

HERE = pathlib.Path(__file__).parent
PREFIX = 'kopf.zalando.org/'
LAST_HANDLED = f'{PREFIX}last-handled-configuration'
FINALIZER = f'{PREFIX}KopfFinalizerMarker'
PATIENCE_SECONDS = 25.0
ADMISSION = '/apis/admissionregistration.k8s.io/v1'
PORT = re.compile(r':\d+')

#: plural: (the API, the kind, whether namespaced)
KINDS = {
    'kopfexamples': ('/apis/kopf.dev/v1', 'KopfExample', True),
    'kopfstatuses': ('/apis/kopf.dev/v1', 'KopfStatus', True),
    'kopfclusters': ('/apis/kopf.dev/v1', 'KopfCluster', False),
    'kopfpeerings': ('/apis/kopf.dev/v1', 'KopfPeering', True),
    'configmaps': ('/api/v1', 'ConfigMap', True),
    'pods': ('/api/v1', 'Pod', True),
    'events': ('/api/v1', 'Event', True),
}

Check = Callable[[Mapping[str, Any]], Any]


class World:
    """One run of one scenario.

    :param pythons: the interpreters with the implementations, in the order of their use in the
        story. There is one, except for the scenarios about a switch-over.
    """

    finalizer = FINALIZER
    last_handled = LAST_HANDLED

    def __init__(
        self,
        plane: ControlPlane,
        script: pathlib.Path,
        folder: pathlib.Path,
        user: str,
        pythons: list[pathlib.Path],
    ) -> None:
        self.client: Client = plane.client
        self.script = script
        self.folder = folder
        self.namespace = new_namespace(plane.client, f'parity-{script.stem.replace("_", "-")[:40]}')
        self.records_file = folder / 'records.jsonl'
        self.kubeconfig = folder / 'kubeconfig'
        self.kubeconfig.write_text(
            kubeconfig(plane.user(user), user=user, namespace=self.namespace)
        )
        self.pythons = pythons
        self.operator: OperatorProcess | None = None
        #: What the story wants to be compared, in the order of its appearance.
        self.notes: list[Any] = []
        self._sentinels = 0
        self._has_webhooks = False

    # The operator.

    def start(
        self, *args: str, implementation: int = 0, env: Mapping[str, str] | None = None
    ) -> None:
        """Start the operator, or start it again: the log and the records go on."""
        python = self.pythons[min(implementation, len(self.pythons) - 1)]
        scope = () if '-A' in args else ('-n', self.namespace)
        peered = any(arg.startswith('--peering') for arg in args)
        self.operator = OperatorProcess(
            python,
            'run',
            str(self.script),
            *(() if peered else ('--standalone',)),
            '--log-format=json',
            *scope,
            *args,
            log=self.folder / 'operator.log',
            cwd=self.folder,
            env={
                'KUBECONFIG': str(self.kubeconfig),
                'PYTHONPATH': str(HERE),
                'PARITY_RECORDS': str(self.records_file),
                'PARITY_WORLD': self.namespace,
                **(env or {}),
            },
        ).start()

    def stop(self) -> None:
        """End the operator by SIGTERM; the exit code is compared."""
        assert self.operator is not None
        self.notes.append({'exit code': self.operator.stop()})
        self.operator = None

    def kill(self) -> None:
        """End the operator by SIGKILL."""
        assert self.operator is not None
        self.operator.kill()
        self.operator = None

    def restart(self, *args: str) -> None:
        self.stop()
        self.start(*args)

    def wait_log(self, *parts: str, count: int = 1) -> None:
        assert self.operator is not None
        self.operator.wait_log(*parts, count=count, timeout_seconds=PATIENCE_SECONDS)

    def fetch(self, url: str) -> tuple[int, str, Any]:
        """Ask the operator itself: the code, the type of the content, and the JSON."""

        def ask() -> tuple[int, str, Any] | None:
            assert self.operator is not None and self.operator.is_running()
            try:
                with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
                    return answer.status, answer.headers['Content-Type'], json.load(answer)
            except urllib.error.HTTPError as error:
                return error.code, '', None

        return wait_for(f'an answer of {url}', ask, timeout_seconds=PATIENCE_SECONDS)

    def free_port(self) -> int:
        with socket.socket() as listener:
            listener.bind(('localhost', 0))
            return listener.getsockname()[1]

    # The records.

    def records(self, id: str | None = None, **match: Any) -> list[dict[str, Any]]:
        """The recorded calls so far: of that handler, with these values."""
        text = self.records_file.read_text() if self.records_file.exists() else ''
        records = [
            json.loads(line) for line in text.splitlines(keepends=True) if line.endswith('\n')
        ]
        return [
            record
            for record in records
            if id is None or record['id'] == id
            if all(record.get(name) == value for name, value in match.items())
        ]

    def wait_record(self, id: str, count: int = 1, **match: Any) -> None:
        def seen() -> bool:
            assert self.operator is None or self.operator.is_running(), (
                f'It has ended: {self.operator.tail(30)}'
            )
            return len(self.records(id, **match)) >= count

        wait_for(
            lambda: f'{count} calls of {id} {match or ""}; the calls are {self.records()}',
            seen,
            timeout_seconds=PATIENCE_SECONDS,
        )

    # The objects.

    def path(self, name: str | None = None, plural: str = 'kopfexamples') -> str:
        api, _, namespaced = KINDS[plural]
        return '/'.join(
            filter(None, [api, f'namespaces/{self.namespace}' if namespaced else '', plural, name])
        )

    def create(
        self,
        name: str,
        spec: Mapping[str, Any] | None = None,
        *,
        plural: str = 'kopfexamples',
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Any:
        api, kind, _ = KINDS[plural]
        metadata = {
            'name': name,
            'labels': labels,
            'annotations': annotations,
            **fields.pop('metadata', {}),
        }
        body = {
            'apiVersion': api.split('/', 2)[2],
            'kind': kind,
            **fields,
            'metadata': {key: value for key, value in metadata.items() if value is not None},
        }
        if spec is not None or (plural.startswith('kopf') and plural != 'kopfpeerings'):
            body['spec'] = spec if spec is not None else {'field': 'value'}
        return self.client.create(self.path(plural=plural), body)

    def patch(
        self,
        name: str,
        patch: Any = None,
        *,
        plural: str = 'kopfexamples',
        subresource: str = '',
        **stanzas: Any,
    ) -> Any:
        """Change the object: by a whole patch, or by stanzas: ``patch('x', spec={'field':
        'new'})``.
        """
        self._wait_until_cached(name, plural)
        path = self.path(name, plural) + (f'/{subresource}' if subresource else '')
        return self.client.patch(path, stanzas if patch is None else patch)

    def delete(self, name: str, *, plural: str = 'kopfexamples') -> None:
        self._wait_until_cached(name, plural)
        self.client.delete(self.path(name, plural))

    def _wait_until_cached(self, name: str, plural: str) -> None:
        """The server tries a change on what it has in its cache, and again on what is stored if
        that differs. It asks the webhooks about both.
        """
        path = self.path(name, plural)

        def version(query: str) -> str | None:
            body = self.client.find(path + query)
            return body and body['metadata']['resourceVersion']

        if self._has_webhooks:
            wait_for(
                f'{path} is in the cache of the server',
                lambda: version('?resourceVersion=0') == version(''),
                timeout_seconds=PATIENCE_SECONDS,
            )

    def get(self, name: str, *, plural: str = 'kopfexamples') -> Any:
        return self.client.find(self.path(name, plural))

    def list(self, plural: str = 'kopfexamples') -> list[Any]:
        return self.client.get(self.path(plural=plural))['items']

    def wait(self, name: str, check: Check, *, plural: str = 'kopfexamples') -> Any:
        """Wait until the object is so, and return it."""

        def seen() -> Any:
            assert self.operator is None or self.operator.is_running(), (
                f'It has ended: {self.operator.tail(30)}'
            )
            body = self.get(name, plural=plural)
            try:
                return body if body is not None and check(body) else None
            except (KeyError, TypeError):
                return None  # The fields of the condition are not there yet.

        return wait_for(
            lambda: f'{plural}/{name} as expected; it is {self.get(name, plural=plural)}',
            seen,
            timeout_seconds=PATIENCE_SECONDS,
        )

    def wait_gone(self, name: str, *, plural: str = 'kopfexamples') -> None:
        wait_for(
            lambda: f'{plural}/{name} is gone; it is {self.get(name, plural=plural)}',
            lambda: self.get(name, plural=plural) is None,
            timeout_seconds=PATIENCE_SECONDS,
        )

    def wait_handled(self, name: str, *, plural: str = 'kopfexamples') -> Any:
        """Wait until the current state of the object is stored as handled, and no handler is in
        progress.
        """
        return self.wait(name, is_handled, plural=plural)

    def wait_events(self, count: int) -> None:
        wait_for(
            lambda: f'{count} events; they are {self.list("events")}',
            lambda: len(self.list('events')) >= count,
            timeout_seconds=PATIENCE_SECONDS,
        )

    def sentinel(self) -> None:
        """Wait until the operator has handled something that came after all that has been done so
        far.
        """
        self._sentinels += 1
        name = f'sentinel-{self._sentinels}'
        self.create(name, labels={'sentinel': 'yes'})
        self.wait_record('sentinel', name=name)

    def note(self, what: str, value: Any) -> None:
        """Compare this, too."""
        self.notes.append({what: value})

    # Webhooks.

    def configuration(self, webhook_type: str = 'validating') -> list[Any] | None:
        """The webhooks of the managed configuration; None if there is none."""
        path = f'{ADMISSION}/{webhook_type}webhookconfigurations/{self.namespace}.kopf.dev'
        found = self.client.find(path)
        return None if found is None else found.get('webhooks', [])

    def wait_configured(
        self,
        webhook_type: str = 'validating',
        count: int = 1,
        *,
        by: str | None = None,
        plural: str = 'kopfexamples',
    ) -> list[Any]:
        """Wait for so many webhooks; and until the cluster asks that handler, which takes a moment
        longer: shown by creations that are not stored.
        """
        self._has_webhooks = True
        webhooks = wait_for(
            lambda: f'{count} webhooks; they are {self.configuration(webhook_type)}',
            lambda: (
                found if len(found := self.configuration(webhook_type) or []) == count else None
            ),
            timeout_seconds=PATIENCE_SECONDS,
        )
        if by is not None:
            wait_for(
                f'the cluster asks {by}',
                lambda: self._is_asked(by, plural),
                timeout_seconds=PATIENCE_SECONDS,
            )
        return webhooks

    def _is_asked(self, handler: str, plural: str) -> bool:
        self._sentinels += 1
        name = f'sentinel-{self._sentinels}'
        with contextlib.suppress(ApiError):  # The cluster may ask before the server listens.
            self.client.create(self.path(plural=plural) + '?dryRun=All', self._asking(name, plural))
        assert self.operator is not None
        return self.operator.count(f"Webhook '{handler}'", name) > 0

    def _asking(self, name: str, plural: str) -> Any:
        """An object about which the webhooks of this run are asked."""
        api, kind, _ = KINDS[plural]
        metadata = {'name': name, 'labels': {'world': self.namespace}}
        return {'apiVersion': api.split('/', 2)[2], 'kind': kind, 'metadata': metadata, 'spec': {}}

    def wait_asked_about(self, subresource: str, *, by: str, plural: str) -> None:
        """Wait until the cluster asks that handler about a subresource: shown by changes that are
        not stored. It may get to know the webhooks of one configuration one by one.
        """
        self._sentinels += 1
        name = f'sentinel-{self._sentinels}'
        self.client.create(self.path(plural=plural), self._asking(name, plural))
        path = f'{self.path(name, plural)}/{subresource}?dryRun=All'

        def is_asked() -> bool:
            with contextlib.suppress(ApiError):
                self.client.patch(path, {'status': {'asked': True}})
            assert self.operator is not None
            return self.operator.count(f"Webhook '{by}'", name) > 0

        wait_for(f'the cluster asks {by}', is_asked, timeout_seconds=PATIENCE_SECONDS)

    def note_configuration(self, webhook_type: str = 'validating') -> None:
        """Compare the configuration, without the port and what the cluster adds."""
        webhooks = self.configuration(webhook_type) or []
        for webhook in webhooks:
            webhook['clientConfig']['url'] = PORT.sub(':PORT', webhook['clientConfig']['url'])
        self.note(webhook_type, webhooks)

    def attempt(self, what: str, action: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Compare what comes of an action: the object, or the refusal."""
        try:
            body = action(*args, **kwargs)
        except ApiError as error:
            answer = json.loads(error.text)
            self.note(what, {'code': error.status, 'message': answer['message']})
        else:
            metadata = (body or {}).get('metadata', {})
            shown = {key: metadata.get(key) for key in ('labels', 'annotations')}
            self.note(what, {'spec': (body or {}).get('spec'), **shown})

    def create_asked(self, name: str, spec: Mapping[str, Any] | None = None, **fields: Any) -> Any:
        """Create an object about which the webhooks are asked."""
        labels = {**fields.pop('labels', {}), 'world': self.namespace}
        return self.create(name, spec, labels=labels, **fields)

    # The end.

    def close(self) -> None:
        if self.operator is not None:
            self.operator.kill()
        for webhook_type in 'validating', 'mutating':
            self.client.delete(
                f'{ADMISSION}/{webhook_type}webhookconfigurations/{self.namespace}.kopf.dev'
            )
        remove_namespace(self.client, self.namespace)


def is_handled(body: Mapping[str, Any]) -> bool:
    annotations = {
        key: value
        for key, value in body['metadata'].get('annotations', {}).items()
        if key.startswith(PREFIX)
    }
    text = annotations.pop(LAST_HANDLED, None)
    if text is None or annotations:
        return False
    essence = json.loads(text)
    return essence.get('spec') == body.get('spec') and essence.get('metadata', {}).get(
        'labels', {}
    ) == body['metadata'].get('labels', {})

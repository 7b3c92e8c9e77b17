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
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from tests.controlplane.plane import ControlPlane
from tests.support.api_proxy import ApiProxy, SeenRequest
from tests.support.client import ApiError, Client, kubeconfig, kubeconfig_of, until, wait_for
from tests.support.examples import new_namespace, remove_namespace
from tests.support.operator_process import REPOSITORY, OperatorProcess

PREFIX = 'kopf.zalando.org/'
LAST_HANDLED = f'{PREFIX}last-handled-configuration'
FINALIZER = f'{PREFIX}KopfFinalizerMarker'
PATIENCE_SECONDS = 25.0
ADMISSION = '/apis/admissionregistration.k8s.io/v1'
DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
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
    :param certificates: the folder with the certificate of webhook servers.
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
        certificates: pathlib.Path,
    ) -> None:
        self.client: Client = plane.client
        self.user = user
        self.certificates = certificates
        self.script = script
        self.folder = folder
        self.namespace = new_namespace(plane.client, f'parity-{script.stem.replace("_", "-")[:40]}')
        self.records_file = folder / 'records.jsonl'
        #: The namespaces beside its own one, by what is appended to its name.
        self.namespaces: dict[str, str] = {}
        self.kubeconfig = folder / 'kubeconfig'
        self.kubeconfig.write_text(
            kubeconfig(plane.user(user), user=user, namespace=self.namespace)
        )
        self._plane = plane
        self._proxy: ApiProxy | None = None
        self._definitions: list[str] = []
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
        scope = () if {'-A', '-n'} & {*args} else ('-n', self.namespace)
        peered = any(arg.startswith('--peering') for arg in args)
        by_module = '-m' in args
        self.operator = self._process(
            'run',
            *(() if by_module else (str(self.script),)),
            *(() if peered else ('--standalone',)),
            '--log-format=json',
            *scope,
            *args,
            implementation=implementation,
            env=env,
        ).start()

    def start_program(self) -> None:
        """Run the scenario as a program which embeds operators; it ends by SIGTERM, too."""
        self.operator = self._process(implementation=0, env=None)
        self.operator.command = [str(self.pythons[0]), str(self.script)]
        self.operator.start()

    def _process(
        self, *args: str, implementation: int, env: Mapping[str, str] | None
    ) -> OperatorProcess:
        return OperatorProcess(
            self.pythons[min(implementation, len(self.pythons) - 1)],
            *args,
            log=self.folder / 'operator.log',
            cwd=self.folder,
            env={
                'KUBECONFIG': str(self.kubeconfig),
                'PYTHONPATH': str(REPOSITORY),
                'PARITY_RECORDS': str(self.records_file),
                'PARITY_WORLD': self.namespace,
                'PARITY_CERTIFICATES': str(self.certificates),
                **(env or {}),
            },
        )

    def proxy(self) -> ApiProxy:
        """Put somebody between the operator and the API server, who can turn requests away and cut
        connections. To be called before the start.
        """
        client = self._plane.user(self.user)
        self._proxy = ApiProxy(client)
        self._proxy.admit(f'Bearer {client.token}')
        cluster = {'server': self._proxy.address}
        self.kubeconfig.write_text(
            kubeconfig_of(
                cluster, {'token': client.token}, user=self.user, namespace=self.namespace
            )
        )
        return self._proxy

    def is_patch(self, name: str, subresource: str = '') -> Callable[[SeenRequest], bool]:
        """Which requests are patches of that object."""
        path = self.path(name) + (f'/{subresource}' if subresource else '')
        return lambda request: request.method == 'PATCH' and request.path == path

    def is_watch(self, plural: str = 'kopfexamples') -> Callable[[SeenRequest], bool]:
        """Which requests are watches of that kind."""
        return lambda request: request.path.endswith(f'/{plural}') and 'watch' in request.query

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

    def review(self, url: str, name: str, operation: str) -> Any:
        """Ask the webhook server of the operator directly about an object: the code, and what it
        answers.
        """
        api = {'group': 'kopf.dev', 'version': 'v1'}
        body = {'apiVersion': 'kopf.dev/v1', 'kind': 'KopfExample', 'metadata': {'name': name}}
        request = {
            'uid': 'some-uid',
            'kind': {**api, 'kind': 'KopfExample'},
            'resource': {**api, 'resource': 'kopfexamples'},
            'operation': operation,
            'userInfo': {'username': 'me', 'uid': 'x', 'groups': []},
            'object': body,
            'oldObject': None if operation == 'CREATE' else body,
        }
        content = {'apiVersion': 'admission.k8s.io/v1', 'kind': 'AdmissionReview'}
        data = json.dumps({**content, 'request': request}).encode()
        headers = {'Content-Type': 'application/json'}
        asked = urllib.request.Request(url, data, headers, method='POST')
        context = ssl._create_unverified_context()  # the certificate is for another name

        def ask() -> Any:
            assert self.operator is not None and self.operator.is_running()
            try:
                with urllib.request.urlopen(
                    asked, timeout=PATIENCE_SECONDS, context=context
                ) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                return error.code, None

        return wait_for(f'an answer of {url}', ask, timeout_seconds=PATIENCE_SECONDS)

    def free_port(self) -> int:
        with socket.socket() as listener:
            listener.bind(('localhost', 0))
            return listener.getsockname()[1]

    def happens(self, check: Callable[[], Any], *, within_seconds: float) -> bool:
        """Whether it happens in that time. It is for what one implementation does in time, and the
        other one late or never; everything else is waited for.
        """
        return any(check() for _ in until(within_seconds, 0.05))

    def wait_until(self, what: str, check: Callable[[], Any]) -> Any:
        """Wait for anything else."""
        return wait_for(what, check, timeout_seconds=PATIENCE_SECONDS)

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
        """Of an object or of a kind. A name with a slash begins with an added namespace."""
        api, _, namespaced = self.kind(plural)
        prefix, _, name = (name or '').rpartition('/')
        namespace = self.namespaces[prefix] if prefix else self.namespace
        return '/'.join(
            filter(None, [api, f'namespaces/{namespace}' if namespaced else '', plural, name])
        )

    def kind(self, plural: str) -> tuple[str, str, bool]:
        """The API, the kind, whether namespaced."""
        if plural in KINDS:
            return KINDS[plural]
        return f'/apis/{self.group}/v1', plural.rstrip('s').capitalize(), True

    @property
    def group(self) -> str:
        """The API group of the kinds that only this run has."""
        return f'{self.namespace}.dev'

    def add_namespace(self, suffix: str) -> str:
        name = f'{self.namespace}-{suffix}'
        self.client.create('/api/v1/namespaces', {'metadata': {'name': name}})
        self.namespaces[suffix] = name
        return name

    def remove_namespace(self, suffix: str) -> None:
        """Remove it with all that is in it, and wait until it is gone."""
        name = self.namespaces[suffix]
        self.client.delete(f'/api/v1/namespaces/{name}')
        wait_for(
            f'{name} is gone',
            lambda: self.client.find(f'/api/v1/namespaces/{name}') is None,
            timeout_seconds=2 * PATIENCE_SECONDS,
        )
        del self.namespaces[suffix]

    def define(self, plural: str) -> None:
        """Make a kind that only this run has: in the group :attr:`group`, of any content."""
        _, kind, _ = self.kind(plural)
        schema = {'type': 'object', 'x-kubernetes-preserve-unknown-fields': True}
        names = {'plural': plural, 'singular': plural.rstrip('s'), 'kind': kind}
        version = {'name': 'v1', 'served': True, 'storage': True}
        body = {
            'apiVersion': 'apiextensions.k8s.io/v1',
            'kind': 'CustomResourceDefinition',
            'metadata': {'name': f'{plural}.{self.group}'},
            'spec': {
                'group': self.group,
                'scope': 'Namespaced',
                'names': names,
                'versions': [{**version, 'schema': {'openAPIV3Schema': schema}}],
            },
        }
        self.client.create(DEFINITIONS, body)
        self._definitions.append(plural)
        wait_for(
            f'{plural} are served',
            lambda: self.client.get(self.path(plural=plural)),
            timeout_seconds=PATIENCE_SECONDS,
        )

    def undefine(self, plural: str) -> None:
        """Remove such a kind with all of its objects, and wait until it is gone."""
        path = f'{DEFINITIONS}/{plural}.{self.group}'
        self.client.delete(path)
        wait_for(
            f'{plural} are not defined any more',
            lambda: self.client.find(path) is None,
            timeout_seconds=PATIENCE_SECONDS,
        )
        self._definitions.remove(plural)

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
        api, kind, _ = self.kind(plural)
        prefix, _, name = name.rpartition('/')
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
        return self.client.create(self.path(f'{prefix}/', plural), body)

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
        """The server applies a change to its cached object first, and again to the stored one if
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
        """Its objects in all namespaces of the run; none, if the kind is not there."""
        prefixes = ['', *self.namespaces] if self.kind(plural)[2] else ['']
        lists = [self.client.find(self.path(f'{prefix}/', plural)) for prefix in prefixes]
        return [body for found in lists if found is not None for body in found['items']]

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
        """Wait for this number of webhooks, and until the cluster asks that handler, which takes a
        moment longer: dry-run creations show it.
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
                lambda: self._is_consulted(by, plural),
                timeout_seconds=PATIENCE_SECONDS,
            )
        return webhooks

    def _is_consulted(self, handler: str, plural: str) -> bool:
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

        def is_consulted() -> bool:
            with contextlib.suppress(ApiError):
                self.client.patch(path, {'status': {'asked': True}})
            assert self.operator is not None
            return self.operator.count(f"Webhook '{by}'", name) > 0

        wait_for(f'the cluster asks {by}', is_consulted, timeout_seconds=PATIENCE_SECONDS)

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
        if self._proxy is not None:
            self._proxy.close()
        for plural in self._definitions:
            for body in self.list(plural):
                path = self.path(body['metadata']['name'], plural)
                self.client.patch(path, {'metadata': {'finalizers': None}})
            self.client.delete(f'{DEFINITIONS}/{plural}.{self.group}')
        for namespace in self.namespaces.values():
            remove_namespace(self.client, namespace)
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

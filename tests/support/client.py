"""A small client of the Kubernetes API, and functions that wait for a condition.

The tests observe operators from outside, so they share no code with the engine or with any
Kubernetes client library. All suites that need a cluster use it, and so does the launcher of the
control plane.
"""

from __future__ import annotations

import http.client
import json
import pathlib
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar('T')

#: The default timeout of every wait in the tests. It is long for the sake of busy machines.
PATIENCE_SECONDS = 30.0


class ApiError(Exception):
    """The API server has returned an error."""

    def __init__(self, method: str, path: str, status: int, text: str) -> None:
        super().__init__(f'{method} {path}: {status}: {text[:500]}')
        self.status = status
        self.text = text


class Client:
    """One user of one cluster. It is thread-safe: each thread has its own connection."""

    def __init__(self, server: str, token: str, ca: pathlib.Path) -> None:
        self.server = server
        self.token = token
        self.ca = ca
        self._address = urllib.parse.urlsplit(server)
        self._context = ssl.create_default_context(cafile=str(ca))
        self._local = threading.local()
        self._connections: list[http.client.HTTPSConnection] = []

    def close(self) -> None:
        """Close the connections of all threads. The client reconnects when it is used again."""
        for connection in self._connections:
            connection.close()

    def as_token(self, token: str) -> Client:
        """A client of the same cluster for another user."""
        return Client(self.server, token, self.ca)

    def get(self, path: str) -> Any:
        return self.request('GET', path)

    def find(self, path: str) -> Any | None:
        """The object, or None if it does not exist."""
        try:
            return self.get(path)
        except ApiError as e:
            if e.status == 404:
                return None
            raise

    def create(self, path: str, body: Mapping[str, Any], *, exist_ok: bool = False) -> Any:
        try:
            return self.request('POST', path, body)
        except ApiError as e:
            if e.status == 409 and exist_ok:
                return None
            raise

    def patch(self, path: str, body: Any) -> Any:
        """Send a mapping as a merge patch, and a list as a JSON patch."""
        kind = 'json-patch' if isinstance(body, list) else 'merge-patch'
        return self.request('PATCH', path, body, content_type=f'application/{kind}+json')

    def delete(self, path: str, **options: Any) -> None:
        try:
            self.request('DELETE', path, options or None)
        except ApiError as e:
            if e.status != 404:
                raise

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = 'application/json',
        timeout_seconds: float = 30,
    ) -> Any:
        headers = {'Authorization': f'Bearer {self.token}', 'Content-Type': content_type}
        data = None if body is None else json.dumps(body).encode()
        for _ in until(10.0, 0.1):
            status, raw = self._exchange(method, path, data, headers, timeout_seconds)
            if status != 429:  # the server returns it for a moment after a new CRD
                break
        text = raw.decode()
        if status >= 400:
            raise ApiError(method, path, status, text)
        try:
            return json.loads(text)
        except ValueError:
            return text

    def _exchange(
        self,
        method: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str],
        timeout_seconds: float,
    ) -> tuple[int, bytes]:
        for attempt in 1, 2:
            connection = getattr(self._local, 'connection', None)
            if connection is None:
                connection = http.client.HTTPSConnection(
                    self._address.hostname or '',
                    self._address.port,
                    context=self._context,
                    timeout=timeout_seconds,
                )
                self._local.connection = connection
                self._connections.append(connection)
            try:
                connection.request(method, path, body=data, headers=headers)
                response = connection.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException):
                # The server may have closed an idle connection; try once more on a new one.
                connection.close()
                if attempt == 2:
                    raise
        raise AssertionError('unreachable')


def kubeconfig(client: Client, *, user: str = 'admin', namespace: str = 'default') -> str:
    """The text of a kubeconfig file for this user."""
    cluster = {'server': client.server, 'certificate-authority': str(client.ca.resolve())}
    return kubeconfig_of(cluster, {'token': client.token}, user=user, namespace=namespace)


def kubeconfig_of(
    cluster: Mapping[str, Any],
    credentials: Mapping[str, Any],
    *,
    user: str = 'test',
    namespace: str = 'default',
) -> str:
    """The text of a kubeconfig file. It is JSON, which every YAML parser reads."""
    context = {'cluster': 'test', 'user': user, 'namespace': namespace}
    return json.dumps(
        {
            'apiVersion': 'v1',
            'kind': 'Config',
            'current-context': 'test',
            'clusters': [{'name': 'test', 'cluster': cluster}],
            'users': [{'name': user, 'user': credentials}],
            'contexts': [{'name': 'test', 'context': context}],
        },
        indent=2,
    )


def wait_for(
    what: str | Callable[[], str],
    check: Callable[[], T | None],
    *,
    timeout_seconds: float = PATIENCE_SECONDS,
    interval_seconds: float = 0.05,
) -> T:
    """Wait until the check returns something true, and return that. Errors of the API and of the
    connection count as "not yet".
    """
    error: BaseException | None = None
    for _ in until(timeout_seconds, interval_seconds):
        try:
            result = check()
        except (OSError, ApiError, http.client.HTTPException) as e:
            error = e
        else:
            error = None
            if result:
                return result
    description = what if isinstance(what, str) else what()
    raise TimeoutError(
        f'Not seen in {timeout_seconds:.0f} s: {description}' + (f' ({error!r})' if error else '')
    )


def until(timeout_seconds: float, interval_seconds: float) -> Iterator[None]:
    """Yield at each interval until the timeout, and once more after it."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(interval_seconds)
    yield

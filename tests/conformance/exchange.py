"""Sends one request to one server and reads the whole answer. Used by running.py.

It knows nothing of Kubernetes beyond the token: no client library shall hide a header or a byte.
"""

from __future__ import annotations

import base64
import dataclasses
import http.client
import pathlib
import ssl
import threading
import urllib.parse

import yaml

from .scenario import Request

#: Longer than any watch of the corpus.
TIMEOUT_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class Answer:
    """One answer as it came."""

    code: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Server:
    """One server for one user. Safe to use from several threads: each has its own connection."""

    def __init__(self, kubeconfig: pathlib.Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config['clusters'][0]['cluster'], config['users'][0]['user']
        self.url: str = cluster['server']
        self.token: str = user['token']
        self._address = urllib.parse.urlsplit(self.url)
        self._context = ssl.create_default_context(
            cafile=cluster.get('certificate-authority'),
            cadata=base64.b64decode(cluster.get('certificate-authority-data', '')).decode() or None,
        )
        self._local = threading.local()

    def send(self, request: Request) -> Answer:
        headers = {'Authorization': f'Bearer {self.token}', **request.headers}
        headers = {key: value for key, value in headers.items() if value}
        for attempt in 1, 2:
            connection = self._connection()
            try:
                connection.request(request.method, request.path, request.body, headers)
                response = connection.getresponse()
                body = response.read()
                return Answer(response.status, tuple(response.getheaders()), body)
            except http.client.IncompleteRead as e:  # so ends a watch that was cut
                connection.close()
                return Answer(response.status, tuple(response.getheaders()), e.partial)
            except (OSError, http.client.HTTPException):
                # The server may have closed an idle connection; a fresh one tells the truth.
                connection.close()
                if attempt == 2:
                    raise
        raise AssertionError('unreachable')

    def _connection(self) -> http.client.HTTPSConnection:
        connection = getattr(self._local, 'connection', None)
        if connection is None:
            connection = self._local.connection = http.client.HTTPSConnection(
                self._address.hostname or '',
                self._address.port,
                context=self._context,
                timeout=TIMEOUT_SECONDS,
            )
        return connection

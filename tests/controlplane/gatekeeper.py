"""Somebody in front of the cluster who decides who may come in, and through whom the way goes.

So the tests of logins and requests need nothing from the cluster: tokens can become invalid,
certificates are asked for, the way to it can be a proxy, and every request is written down, and may
be turned away. It is the same for the embedded and for a real one. The tests of operators and the
parity tests use it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import http.server
import json
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from cluster_client import Client

#: What is not passed on: it is about one connection, not about the request.
HOP_BY_HOP = {'connection', 'transfer-encoding', 'content-length', 'host', 'authorization'}

#: What the API server calls its refusals.
REASONS = {
    401: 'Unauthorized',
    403: 'Forbidden',
    404: 'NotFound',
    409: 'Conflict',
    410: 'Expired',
    422: 'Invalid',
    429: 'TooManyRequests',
    500: 'InternalError',
    503: 'ServiceUnavailable',
}


@dataclasses.dataclass
class SeenRequest:
    """One request that has come in, by the monotonic time."""

    method: str
    path: str
    query: dict[str, str]
    began: float
    ended: float | None = None


@dataclasses.dataclass
class Obstacle:
    """What is done to some requests instead of passing them on.

    :param code: of the answer; 0 means that there is none, until the obstacle is removed.
    :param content: of the answer, as JSON; by default, what the API server says to such a code.
    """

    matches: Callable[[SeenRequest], bool]
    code: int = 0
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    content: Mapping[str, Any] | None = None
    times: int = 1_000_000
    met: list[SeenRequest] = dataclasses.field(default_factory=list)
    removed: threading.Event = dataclasses.field(default_factory=threading.Event)


class Gatekeeper:
    """A reverse proxy with its own idea of who may come in."""

    def __init__(self, client: Client, context: ssl.SSLContext | None = None) -> None:
        self.valid: set[str] = set()  # the Authorization headers
        self.seen: list[str] = []  # those of all requests, in order
        self.refused = 0
        self.requests: list[SeenRequest] = []  # of those who were let in, in order
        self.obstacles: list[Obstacle] = []
        self._client = client
        self._context = ssl.create_default_context(cafile=str(client.ca))
        #: The connections to the cluster, with the requests that they are for.
        self._far: dict[http.client.HTTPConnection, SeenRequest] = {}
        gatekeeper = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_GET(self) -> None:
                gatekeeper._serve(self)

            do_POST = do_PATCH = do_PUT = do_DELETE = do_GET  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = 'https' if context is not None else 'http'
        self.address = f'{scheme}://127.0.0.1:{self._server.server_port}'
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def admit(self, *headers: str) -> None:
        """Only these are valid from now on; the streams of all others end."""
        self.valid = set(headers)
        self.cut(lambda _: True)

    def cut(self, matches: Callable[[SeenRequest], bool]) -> int:
        """Break the connections of these requests, as a failing network does; how many."""
        connections = [far for far, seen in list(self._far.items()) if matches(seen)]
        for connection in connections:
            with contextlib.suppress(OSError, AttributeError):  # it has just ended by itself
                connection.sock.shutdown(socket.SHUT_RDWR)
        return len(connections)

    def close(self) -> None:
        for obstacle in self.obstacles:
            obstacle.removed.set()
        self._server.shutdown()
        self._server.server_close()
        self.admit()

    def select(self, method: str, plural: str, **query: str) -> list[SeenRequest]:
        """The requests of one kind so far: by what their paths end with, and by parameters."""
        return [
            request
            for request in list(self.requests)
            if request.method == method and request.path.endswith(f'/{plural}')
            if all(request.query.get(name) == value for name, value in query.items())
        ]

    def obstruct(self, matches: Callable[[SeenRequest], bool], **options: Any) -> Obstacle:
        """Put an obstacle into the way of some requests."""
        obstacle = Obstacle(matches, **options)
        self.obstacles.append(obstacle)
        return obstacle

    def _serve(self, request: http.server.BaseHTTPRequestHandler) -> None:
        given = request.headers.get('Authorization', '')
        length = int(request.headers.get('Content-Length') or 0)
        body = request.rfile.read(length) if length else None
        self.seen.append(given)
        if given not in self.valid:
            self.refused += 1
            refuse(request, 401)
            return
        path, _, query = request.path.partition('?')
        parameters = dict(urllib.parse.parse_qsl(query))
        seen = SeenRequest(request.command, path, parameters, time.monotonic())
        self.requests.append(seen)
        try:
            if not self._meet_obstacles(seen, request):
                self._pass_on(seen, request, body)
        finally:
            seen.ended = time.monotonic()

    def _meet_obstacles(
        self, seen: SeenRequest, request: http.server.BaseHTTPRequestHandler
    ) -> bool:
        """Whether the request ends here."""
        for obstacle in self.obstacles:
            if obstacle.removed.is_set() or len(obstacle.met) >= obstacle.times:
                continue
            if obstacle.matches(seen):
                obstacle.met.append(seen)
                if obstacle.code:
                    refuse(request, obstacle.code, obstacle.headers, obstacle.content)
                else:
                    obstacle.removed.wait()
                    request.close_connection = True
                return True
        return False

    def _pass_on(
        self, seen: SeenRequest, request: http.server.BaseHTTPRequestHandler, body: bytes | None
    ) -> None:
        host, port = self._client.server.removeprefix('https://').rsplit(':', 1)
        far = http.client.HTTPSConnection(host, int(port), context=self._context, timeout=300)
        self._far[far] = seen
        try:
            headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP_BY_HOP}
            headers['Authorization'] = f'Bearer {self._client.token}'
            far.request(request.command, request.path, body=body, headers=headers)
            answer = far.getresponse()
            request.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP_BY_HOP:
                    request.send_header(name, value)
            request.send_header('Transfer-Encoding', 'chunked')
            request.end_headers()
            while data := answer.read1(65536):
                request.wfile.write(b'%x\r\n%s\r\n' % (len(data), data))
            request.wfile.write(b'0\r\n\r\n')
        except (OSError, http.client.HTTPException):
            request.close_connection = True  # one of the sides is gone
        finally:
            del self._far[far]
            far.close()


def refuse(
    request: http.server.BaseHTTPRequestHandler,
    code: int,
    headers: Mapping[str, str] | None = None,
    content: Mapping[str, Any] | None = None,
) -> None:
    data = json.dumps(status(code) if content is None else content).encode() + b'\n'
    request.send_response(code)
    for name, value in (headers or {}).items():
        request.send_header(name, value)
    request.send_header('Content-Type', 'application/json')
    request.send_header('Content-Length', str(len(data)))
    request.end_headers()
    request.wfile.write(data)


def status(code: int) -> dict[str, Any]:
    """What the API server says about a refusal."""
    content = {'kind': 'Status', 'apiVersion': 'v1', 'status': 'Failure', 'code': code}
    return {**content, 'reason': REASONS.get(code, 'Unspecified')}


class ConnectProxy:
    """An HTTP proxy that knows only CONNECT."""

    def __init__(self) -> None:
        self.targets: list[str] = []
        self._listener = socket.create_server(('127.0.0.1', 0))
        self.address = f'http://127.0.0.1:{self._listener.getsockname()[1]}'
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in self._listener, *self._sockets:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._tunnel, args=(near,), daemon=True).start()

    def _tunnel(self, near: socket.socket) -> None:
        head = b''
        while b'\r\n\r\n' not in head:
            data = near.recv(4096)
            if not data:
                return
            head += data
        method, target, _ = head.split(b' ', 2)
        if method != b'CONNECT':
            near.sendall(b'HTTP/1.1 405 Method Not Allowed\r\n\r\n')
            near.close()
            return
        self.targets.append(target.decode())
        host, port = target.decode().rsplit(':', 1)
        far = socket.create_connection((host, int(port)))
        self._sockets += [near, far]
        near.sendall(b'HTTP/1.1 200 Connection established\r\n\r\n')
        pump: Callable[[socket.socket, socket.socket], None] = self._pump
        threading.Thread(target=pump, args=(far, near), daemon=True).start()
        pump(near, far)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for one in source, target:
            one.close()

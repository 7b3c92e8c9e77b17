"""A reverse proxy in front of the API of a cluster, for tests of logins and of failing requests.

The test says which credentials are valid, injects faults into chosen requests, cuts connections,
and reads back every request. The cluster notices nothing of this, so the same tests run on the
embedded and on a real one. The tests of operators and the parity tests use it.
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

from tests.support.client import Client

#: The headers that concern one connection, not the request; the proxy does not pass them on.
HOP_BY_HOP = {'connection', 'transfer-encoding', 'content-length', 'host', 'authorization'}

#: The reasons in the status of an error, as the API server gives them.
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
    """One request that the proxy has received; the times are monotonic."""

    method: str
    path: str
    query: dict[str, str]
    began: float
    ended: float | None = None


@dataclasses.dataclass
class Fault:
    """What the proxy does to the matching requests instead of passing them on.

    :param code: the status code of the response; 0 means no response until the fault is removed.
    :param content: the body of the response; by default, a status as of the API server.
    :param times: how many requests it affects.
    """

    matches: Callable[[SeenRequest], bool]
    code: int = 0
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    content: Mapping[str, Any] | None = None
    times: int = 1_000_000
    met: list[SeenRequest] = dataclasses.field(default_factory=list)
    removed: threading.Event = dataclasses.field(default_factory=threading.Event)


class ApiProxy:
    """A reverse proxy that admits only the credentials that the test has declared valid."""

    def __init__(self, client: Client, context: ssl.SSLContext | None = None) -> None:
        self.valid: set[str] = set()  # the Authorization headers
        self.seen: list[str] = []  # those of all requests, in order
        self.refused = 0
        self.requests: list[SeenRequest] = []  # the admitted ones, in order
        self.faults: list[Fault] = []
        self._client = client
        self._context = ssl.create_default_context(cafile=str(client.ca))
        #: The connections to the cluster, with the requests that they are for.
        self._far: dict[http.client.HTTPConnection, SeenRequest] = {}
        api_proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_GET(self) -> None:
                api_proxy._serve(self)

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
        """Accept only these Authorization headers from now on, and cut all open connections."""
        self.valid = set(headers)
        self.cut(lambda _: True)

    def cut(self, matches: Callable[[SeenRequest], bool]) -> int:
        """Break the connections of these requests, as a failing network does; return how many."""
        connections = [far for far, seen in list(self._far.items()) if matches(seen)]
        for connection in connections:
            with contextlib.suppress(OSError, AttributeError):  # it has just ended by itself
                connection.sock.shutdown(socket.SHUT_RDWR)
        return len(connections)

    def close(self) -> None:
        for fault in self.faults:
            fault.removed.set()
        self._server.shutdown()
        self._server.server_close()
        self.admit()

    def select(self, method: str, plural: str, **query: str) -> list[SeenRequest]:
        """The requests so far whose path ends with this plural, and which have these parameters."""
        return [
            request
            for request in list(self.requests)
            if request.method == method and request.path.endswith(f'/{plural}')
            if all(request.query.get(name) == value for name, value in query.items())
        ]

    def inject(self, matches: Callable[[SeenRequest], bool], **options: Any) -> Fault:
        """Let these requests fail from now on."""
        fault = Fault(matches, **options)
        self.faults.append(fault)
        return fault

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
            if not self._apply_fault(seen, request):
                self._pass_on(seen, request, body)
        finally:
            seen.ended = time.monotonic()

    def _apply_fault(
        self, seen: SeenRequest, request: http.server.BaseHTTPRequestHandler
    ) -> bool:
        """Apply the first matching fault; return whether there was one."""
        for fault in self.faults:
            if fault.removed.is_set() or len(fault.met) >= fault.times:
                continue
            if fault.matches(seen):
                fault.met.append(seen)
                if fault.code:
                    refuse(request, fault.code, fault.headers, fault.content)
                else:
                    fault.removed.wait()
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
    """The body of an error, as of the API server."""
    content = {'kind': 'Status', 'apiVersion': 'v1', 'status': 'Failure', 'code': code}
    return {**content, 'reason': REASONS.get(code, 'Unspecified')}


class ConnectProxy:
    """A forward proxy for HTTP that supports only CONNECT, for the tests of proxy settings."""

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

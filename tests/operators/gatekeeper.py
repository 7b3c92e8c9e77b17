"""Somebody in front of the cluster who decides who may come in, and through whom the way goes.

So the tests of logins need nothing from the cluster: tokens can become invalid, certificates are
asked for, and the way to it can be a proxy. It is the same for the embedded and for a real one.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from cluster_client import Client

#: What is not passed on: it is about one connection, not about the request.
HOP_BY_HOP = {'connection', 'transfer-encoding', 'content-length', 'host', 'authorization'}


class Gatekeeper:
    """A reverse proxy with its own idea of who may come in."""

    def __init__(self, client: Client, context: ssl.SSLContext | None = None) -> None:
        self.valid: set[str] = set()  # the Authorization headers
        self.seen: list[str] = []  # those of all requests, in order
        self.refused = 0
        self._client = client
        self._context = ssl.create_default_context(cafile=str(client.ca))
        self._far: set[http.client.HTTPConnection] = set()
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
        for connection in list(self._far):
            with contextlib.suppress(OSError, AttributeError):  # it has just ended by itself
                connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.admit()

    def _serve(self, request: http.server.BaseHTTPRequestHandler) -> None:
        given = request.headers.get('Authorization', '')
        length = int(request.headers.get('Content-Length') or 0)
        body = request.rfile.read(length) if length else None
        self.seen.append(given)
        if given not in self.valid:
            self.refused += 1
            content = {'kind': 'Status', 'apiVersion': 'v1', 'status': 'Failure', 'code': 401}
            data = json.dumps({**content, 'reason': 'Unauthorized'}).encode()
            request.send_response(401)
            request.send_header('Content-Type', 'application/json')
            request.send_header('Content-Length', str(len(data)))
            request.end_headers()
            request.wfile.write(data)
            return
        host, port = self._client.server.removeprefix('https://').rsplit(':', 1)
        far = http.client.HTTPSConnection(host, int(port), context=self._context, timeout=300)
        self._far.add(far)
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
            self._far.discard(far)
            far.close()


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

"""A small HTTPS server on asyncio, for what the engine's server cannot do.

That is: an SSL context made by the user; keys with passwords and folders of authorities, which only
OpenSSL can read; and a function behind the server that is not the operator's.
"""
from __future__ import annotations

import asyncio
import base64
import json
import logging
import pathlib
import ssl
import tempfile
import urllib.parse
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from kopf._webhooks.reviews import AmbiguousResourceError, UnknownResourceError, WebhookError

if TYPE_CHECKING:
    from kopf._objects.typedefs import WebhookClientConfig, WebhookFn
    from kopf._webhooks.servers import WebhookServer

logger = logging.getLogger('kopf._kits.webhooks')

HEAD_LIMIT = 64 * 1024
BODY_LIMIT = 64 * 1024 * 1024
READING_TIMEOUT = 30.0
CONNECTIONS = 256


class _Refusal(Exception):
    """Answer the request with this, and do nothing else."""

    def __init__(self, status: str, message: str = '') -> None:
        super().__init__(message or status)
        self.status = status


async def serve(server: WebhookServer, fn: WebhookFn) -> AsyncIterator[WebhookClientConfig]:
    """Serve with the options of the server; yield each address where the cluster can reach it."""
    port = server.port or 0
    while True:
        cadata, context = build_ssl(server)
        exchange = _Exchange(fn, (server.path or '').rstrip('/'))
        host = server.host or server.DEFAULT_HOST
        own = context is not None and server.context is None and server.certfile is None
        addr = server.addr or ('127.0.0.1' if own and host is None else None)
        listening = await asyncio.start_server(
            exchange.converse, addr, port, ssl=context, limit=HEAD_LIMIT,
            ssl_handshake_timeout=10 if context is not None else None)
        try:
            port = listening.sockets[0].getsockname()[1]
            url = server._build_url(
                'http' if context is None else 'https',
                host or server._get_accessible_addr(server.addr), port, server.path or '')
            logger.debug(f"Accessing the webhooks at {url}")
            client_config: WebhookClientConfig = {'url': url}
            if cadata is not None:
                client_config['caBundle'] = base64.b64encode(cadata).decode('ascii')
            yield client_config
            await _wait_for_changes(server)
            logger.debug("Going on with the renewed certificate files.")
        finally:
            listening.close()
            exchange.close()


def build_ssl(server: WebhookServer) -> tuple[bytes | None, ssl.SSLContext | None]:
    """The CA that the cluster must trust, and the TLS context; None of both without TLS."""
    cadata = server.cadata
    if cadata is None and server.cafile is not None:
        cadata = pathlib.Path(server.cafile).read_bytes()
    context = server.context
    if context is None and not server.insecure:
        context = ssl.create_default_context(purpose=ssl.Purpose.CLIENT_AUTH)
    if context is not None:
        if server.verify_mode is not None:
            context.verify_mode = server.verify_mode
        if server.verify_cafile or server.verify_capath or server.verify_cadata:
            context.load_verify_locations(
                server.verify_cafile, server.verify_capath, server.verify_cadata)
            if context.verify_mode == ssl.CERT_NONE:
                context.verify_mode = ssl.CERT_OPTIONAL
        if server.certfile is not None and server.pkeyfile is not None:
            context.load_cert_chain(server.certfile, server.pkeyfile, server.password)
            if cadata is None:
                cadata = pathlib.Path(server.certfile).read_bytes()
        elif server.context is None:
            cadata = _load_own_certificate(server, context)
    if server.cadump is not None and cadata is not None:
        pathlib.Path(server.cadump).write_bytes(cadata)
    return cadata, context


def _load_own_certificate(server: WebhookServer, context: ssl.SSLContext) -> bytes:
    addr = server._get_accessible_addr(server.addr)
    names = [server.host or server.DEFAULT_HOST or addr, addr, *server.extra_sans]
    certificate, key = server.build_certificate(names)
    with tempfile.NamedTemporaryFile() as certfile, tempfile.NamedTemporaryFile() as pkeyfile:
        certfile.write(certificate)
        pkeyfile.write(key)
        certfile.flush()
        pkeyfile.flush()
        context.load_cert_chain(certfile.name, pkeyfile.name)
    return certificate


async def _wait_for_changes(server: WebhookServer) -> None:
    """Kubernetes replaces files of secrets without notice: read them again and again."""
    paths = [path for path in (server.certfile, server.pkeyfile, server.cafile) if path is not None]
    before = [pathlib.Path(path).read_bytes() for path in paths]
    while not paths or before == [pathlib.Path(path).read_bytes() for path in paths]:
        await asyncio.sleep(server.file_check_interval)


class _Exchange:
    """The connections of clients."""

    def __init__(self, fn: WebhookFn, path: str) -> None:
        self._fn = fn
        self._path = f"/{path.strip('/')}" if path else ''
        self._tasks: set[asyncio.Task[Any]] = set()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= CONNECTIONS:
            writer.close()
            return
        self._tasks.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, asyncio.TimeoutError, OSError, EOFError):
            pass  # clients disconnect at any time
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Handle one request; return whether another one may follow."""
        status, content, content_type, keep = '200 OK', '', 'application/json', False
        try:
            head = await asyncio.wait_for(_read_head(reader), READING_TIMEOUT)
            if head is None:
                return False
            method, target, headers = head
            keep = headers.get('Connection', '').lower() != 'close'
            body = await asyncio.wait_for(_read_body(reader, headers), READING_TIMEOUT)
            answer = await self._answer(method, target, headers, body, writer)
            content = json.dumps(answer)
        except _Refusal as error:
            status, content, content_type, keep = error.status, str(error), 'text/plain', False
        data = content.encode('utf-8')
        writer.write(
            f'HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(data)}\r\n'
            f'Connection: {"keep-alive" if keep else "close"}\r\n\r\n'.encode('latin-1') + data)
        await asyncio.wait_for(writer.drain(), READING_TIMEOUT)
        return keep

    async def _answer(
            self,
            method: str,
            target: str,
            headers: dict[str, str],
            body: bytes,
            writer: asyncio.StreamWriter,
    ) -> Any:
        path = urllib.parse.unquote(urllib.parse.urlsplit(target).path)
        if not f'{path}/'.startswith(f'{self._path}/'):
            raise _Refusal('404 Not Found')
        if method != 'POST':
            raise _Refusal('405 Method Not Allowed')
        peer = writer.get_extra_info('peercert')
        try:
            request = json.loads(body)
            return await self._fn(request, webhook=path[len(self._path) + 1:] or None,
                                  headers=headers, sslpeer=peer)
        except AmbiguousResourceError as error:
            raise _Refusal('409 Conflict', str(error)) from error
        except UnknownResourceError as error:
            raise _Refusal('404 Not Found', str(error)) from error
        except (WebhookError, ValueError, RecursionError) as error:
            raise _Refusal('400 Bad Request', str(error)) from error
        except Exception as error:
            logger.exception("A request to a webhook has failed.")
            raise _Refusal('500 Internal Server Error') from error


async def _read_head(
        reader: asyncio.StreamReader,
) -> tuple[str, str, dict[str, str]] | None:
    try:
        text = (await reader.readuntil(b'\r\n\r\n')).decode('latin-1')
    except asyncio.LimitOverrunError as error:
        raise _Refusal('431 Request Header Fields Too Large') from error
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise
    first, *lines = text.rstrip('\r\n').split('\r\n')
    parts = first.split(' ')
    if len(parts) != 3 or not parts[2].startswith('HTTP/1.'):
        raise _Refusal('400 Bad Request')
    headers = {}
    for line in lines:
        name, colon, value = line.partition(':')
        if not colon:
            raise _Refusal('400 Bad Request')
        headers['-'.join(word.capitalize() for word in name.split('-'))] = value.strip()
    return parts[0], parts[1], headers


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get('Transfer-Encoding', '').lower() == 'chunked':
        content = bytearray()
        while size := _parse_size(await reader.readuntil(b'\r\n'), 16):
            if len(content) + size > BODY_LIMIT:
                raise _Refusal('413 Content Too Large')
            content += await reader.readexactly(size)
            await reader.readexactly(2)
        while await reader.readuntil(b'\r\n') != b'\r\n':
            pass
        return bytes(content)
    size = _parse_size(headers.get('Content-Length', '0').encode(), 10)
    if size > BODY_LIMIT:
        raise _Refusal('413 Content Too Large')
    return await reader.readexactly(size)


def _parse_size(text: bytes, base: int) -> int:
    digits = text.split(b';')[0].strip()
    if not digits.isalnum():
        raise _Refusal('400 Bad Request')
    try:
        return int(digits, base)
    except ValueError as error:
        raise _Refusal('400 Bad Request') from error

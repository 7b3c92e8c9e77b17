"""Servers and tunnels of admission webhooks, to be put in `settings.admission.server`.

A server is a callable that takes a function, and asynchronously yields the address by which the
cluster reaches it. For each request, it calls the function, and sends the result back. Those here
use the server of the engine, with TLS; the engine creates the certificates.
"""
from __future__ import annotations

import asyncio
import functools
import ipaddress
import logging
import os
import ssl
import urllib.parse
from collections.abc import AsyncIterator, Collection, Iterable
from typing import TYPE_CHECKING, Any

from kopf._webhooks.reviews import Webhooks

if TYPE_CHECKING:
    from kopf._objects.typedefs import WebhookClientConfig, WebhookFn

    StrPath = str | os.PathLike[str]

logger = logging.getLogger('kopf._kits.webhooks')


class MissingDependencyError(ImportError):
    """A server or a tunnel needs a package that is not installed."""


class _Endpoint:
    """What all servers and tunnels have in common: they end with their operator."""

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: Any) -> None:
        pass


class WebhookServer(_Endpoint):
    """A local HTTPS server, reachable from the cluster by a host name or an address.

    * `addr`, `port`: where to listen; by default, any free port. Without an address, it is the
      loopback if the server creates the certificate and no `host` is given; otherwise, all
      interfaces.
    * `path`: the path of all webhooks.
    * `host`: the name or address by which the cluster reaches the server, if that is not `addr`.
    * `cadata`, `cafile`: the CA that the cluster must trust (PEM); `cadump`: where to write it.
    * `certfile`, `pkeyfile`, `password`: the certificate of the server. The server reads the files
      again when they change (it checks every `file_check_interval` seconds). Without them, it
      creates and renews a certificate, for `host`, `addr` and all of `extra_sans`.
    * `verify_mode`, `verify_cafile`, `verify_capath`, `verify_cadata`: whether and how to verify
      the certificates of clients; handlers get them as `sslpeer`.
    * `context`: a whole TLS context of Python.
    * `insecure`: without TLS. Kubernetes does not connect to such a server, but a tunnel can.
    """

    DEFAULT_HOST: str | None = None

    addr: str | None
    port: int | None
    path: str | None

    def __init__(
            self,
            *,
            addr: str | None = None,
            port: int | None = None,
            path: str | None = None,
            host: str | None = None,
            cadata: bytes | None = None,
            cafile: StrPath | None = None,
            cadump: StrPath | None = None,
            context: ssl.SSLContext | None = None,
            insecure: bool = False,
            certfile: StrPath | None = None,
            pkeyfile: StrPath | None = None,
            password: str | None = None,
            extra_sans: Iterable[str] = (),
            verify_mode: ssl.VerifyMode | None = None,
            verify_cafile: StrPath | None = None,
            verify_capath: StrPath | None = None,
            verify_cadata: str | bytes | None = None,
            file_check_interval: float = 60.0,
    ) -> None:
        self.addr = addr
        self.port = port
        self.path = path
        self.host = host
        self.cadata = cadata
        self.cafile = cafile
        self.cadump = cadump
        self.context = context
        self.insecure = insecure
        self.certfile = certfile
        self.pkeyfile = pkeyfile
        self.password = password
        self.extra_sans = extra_sans
        self.verify_mode = verify_mode
        self.verify_cafile = verify_cafile
        self.verify_capath = verify_capath
        self.verify_cadata = verify_cadata
        self.file_check_interval = file_check_interval

    async def __call__(self, fn: WebhookFn) -> AsyncIterator[WebhookClientConfig]:
        if self.insecure and self.context is not None:
            raise ValueError("An insecure server cannot have an SSL context.")
        if isinstance(fn, Webhooks) and self._suits_engine():
            serving = fn.serve(self._get_options())
        else:
            from kopf._webhooks import asyncio_server
            serving = asyncio_server.serve(self, fn)
        try:
            async for client_config in serving:
                yield client_config
        finally:
            await serving.aclose()  # type: ignore[attr-defined]

    def _suits_engine(self) -> bool:
        """Whether the engine can serve it; otherwise, Python does, with OpenSSL."""
        return (
            self.context is None and
            not (self.password and self.certfile is not None) and
            self.verify_capath is None and
            not (isinstance(self.verify_cadata, bytes) and b'-----BEGIN' not in self.verify_cadata)
        )

    def _get_options(self) -> dict[str, Any]:
        modes = {ssl.CERT_OPTIONAL: 'optional', ssl.CERT_REQUIRED: 'required'}
        mode = self.verify_mode if self.verify_mode is not None else ssl.CERT_NONE
        return {
            'addr': self.addr,
            'port': self.port,
            'path': self.path,
            'host': self.host or self.DEFAULT_HOST,
            'cadata': _as_text(self.cadata),
            'cafile': _as_path(self.cafile),
            'cadump': _as_path(self.cadump),
            'insecure': bool(self.insecure),
            # One file without the other is useless.
            'certfile': _as_path(self.certfile) if self.pkeyfile is not None else None,
            'pkeyfile': _as_path(self.pkeyfile) if self.certfile is not None else None,
            'extra_sans': list(self.extra_sans),
            'verify': modes.get(mode, 'unasked'),
            'verify_cadata': _as_text(self.verify_cadata),
            'verify_cafile': _as_path(self.verify_cafile),
            'file_check_interval': self.file_check_interval,
        }

    @staticmethod
    def _get_accessible_addr(addr: str | None) -> str:
        """Where to connect to: not to the address that means "all interfaces"."""
        if not addr:
            return 'localhost'
        try:
            ip = ipaddress.ip_address(addr)
        except ValueError:
            return addr
        if ip.is_unspecified:
            return '127.0.0.1' if ip.version == 4 else '::1'
        return addr

    @staticmethod
    def _build_url(schema: str, host: str, port: int, path: str) -> str:
        try:
            host = f'[{ipaddress.IPv6Address(host)}]'
        except ValueError:
            pass
        default_port = {'http': 80, 'https': 443}.get(schema)
        netloc = host if port == default_port else f'{host}:{port}'
        return urllib.parse.urlunsplit([schema, netloc, path, '', ''])

    @staticmethod
    def build_certificate(
            hostnames: Collection[str],
            password: str | None = None,
    ) -> tuple[bytes, bytes]:
        """A self-signed certificate and its private key, both in PEM. No packages are needed."""
        from kopf import _native
        if password:
            raise ValueError("The key of a generated certificate cannot be encrypted. "
                             "Use your own certfile= and pkeyfile= with a password.")
        certificate, key = _native.self_signed(list(hostnames))
        return certificate.encode('ascii'), key.encode('ascii')


class WebhookK3dServer(WebhookServer):
    """A local server for K3d and K3s clusters."""

    DEFAULT_HOST = 'host.k3d.internal'


class WebhookMinikubeServer(WebhookServer):
    """A local server for Minikube clusters."""

    DEFAULT_HOST = 'host.minikube.internal'


class WebhookDockerDesktopServer(WebhookServer):
    """A local server for the clusters of Docker Desktop."""

    DEFAULT_HOST = 'host.docker.internal'


class ClusterDetector:
    """Finds out which local cluster the operator is connected to, by its certificate."""

    @staticmethod
    async def guess_host() -> str | None:
        """The host name of this machine in the cluster, if it is a known cluster."""
        from kopf._call.context import front_var
        server = front_var.get().server
        address = urllib.parse.urlsplit(server or '')
        if address.scheme != 'https' or not address.hostname:
            return None
        loop = asyncio.get_running_loop()
        look = functools.partial(_read_certificate, address.hostname, address.port or 443)
        try:
            certificate = await loop.run_in_executor(None, look)
        except OSError as error:
            logger.debug(f"The certificate of the cluster cannot be read: {error!r}")
            return None
        return _recognise_cluster(certificate)


def _read_certificate(host: str, port: int) -> dict[str, Any]:
    import json

    from kopf import _native
    text = ssl.get_server_certificate((host, port), timeout=10)
    return json.loads(_native.describe_certificate(ssl.PEM_cert_to_DER_cert(text)))


def _recognise_cluster(certificate: dict[str, Any]) -> str | None:
    def names(stanza: str) -> dict[str, str]:
        return {key: value for part in certificate.get(stanza, ()) for key, value in part}

    subject, issuer = names('subject'), names('issuer')
    aliases = [name for _, name in certificate.get('subjectAltName', ())]
    issued_by = issuer.get('commonName', '')
    if 'k3s' in (subject.get('commonName'), subject.get('organizationName')):
        return WebhookK3dServer.DEFAULT_HOST
    if issued_by.startswith('k3s-'):
        return WebhookK3dServer.DEFAULT_HOST
    if subject.get('commonName') == 'minikube' or issued_by == 'minikubeCA':
        return WebhookMinikubeServer.DEFAULT_HOST
    if 'docker-for-desktop' in aliases:
        return WebhookDockerDesktopServer.DEFAULT_HOST
    return None


class WebhookAutoServer(ClusterDetector, WebhookServer):
    """A local server whose host name is guessed from the cluster."""

    async def __call__(self, fn: WebhookFn) -> AsyncIterator[WebhookClientConfig]:
        host = self.DEFAULT_HOST = await self.guess_host()
        if host is None:
            logger.debug("Cluster detection failed, running a simple local server.")
        else:
            logger.debug(f"Cluster detection found the hostname: {host}")
        async for client_config in super().__call__(fn):
            yield client_config


class WebhookNgrokTunnel(_Endpoint):
    """A tunnel of ngrok to a local server; it needs the package `pyngrok`."""

    addr: str | None
    port: int | None
    path: str | None

    def __init__(
            self,
            *,
            addr: str | None = None,
            port: int | None = None,
            path: str | None = None,
            token: str | None = None,
            region: str | None = None,
            binary: StrPath | None = None,
    ) -> None:
        self.addr = addr
        self.port = port
        self.path = path
        self.token = token
        self.region = region
        self.binary = binary

    async def __call__(self, fn: WebhookFn) -> AsyncIterator[WebhookClientConfig]:
        try:
            from pyngrok import conf, ngrok  # type: ignore[import-not-found]
        except ImportError as error:
            raise MissingDependencyError(
                "The ngrok tunnel needs an extra package: run `pip install pyngrok`.") from error
        if self.binary is not None:
            conf.get_default().ngrok_path = str(self.binary)
        if self.region is not None:
            conf.get_default().region = self.region
        if self.token is not None:
            ngrok.set_auth_token(self.token)
        loop = asyncio.get_running_loop()
        tunnel: Any = None
        server = WebhookServer(addr=self.addr or '127.0.0.1', port=self.port, path=self.path,
                               insecure=True)
        try:
            async for client_config in server(fn):
                if tunnel is not None:
                    await loop.run_in_executor(None, ngrok.disconnect, tunnel.public_url)
                port = urllib.parse.urlsplit(client_config.get('url') or '').port
                connect = functools.partial(ngrok.connect, str(port), bind_tls=True)
                tunnel = await loop.run_in_executor(None, connect)
                url = f"{tunnel.public_url}{self.path or ''}"
                logger.debug(f"Accessing the webhooks at {url}")
                yield {'url': url}
        finally:
            if tunnel is not None:
                await loop.run_in_executor(None, ngrok.disconnect, tunnel.public_url)


class WebhookAutoTunnel(ClusterDetector, _Endpoint):
    """A local server if the cluster is known, or a tunnel to it if not."""

    addr: str | None
    port: int | None
    path: str | None

    def __init__(
            self,
            *,
            addr: str | None = None,
            port: int | None = None,
            path: str | None = None,
    ) -> None:
        self.addr = addr
        self.port = port
        self.path = path

    async def __call__(self, fn: WebhookFn) -> AsyncIterator[WebhookClientConfig]:
        server: WebhookNgrokTunnel | WebhookServer
        host = await self.guess_host()
        if host is None:
            logger.debug("Cluster detection failed, using an ngrok tunnel.")
            server = WebhookNgrokTunnel(addr=self.addr, port=self.port, path=self.path)
        else:
            logger.debug(f"Cluster detection found the hostname: {host}")
            server = WebhookServer(addr=self.addr, port=self.port, path=self.path, host=host)
        async for client_config in server(fn):
            yield client_config


def _as_text(data: str | bytes | None) -> str | None:
    return data.decode('utf-8') if isinstance(data, bytes) else data


def _as_path(path: StrPath | None) -> str | None:
    return os.fspath(path) if path is not None else None

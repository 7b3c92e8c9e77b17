"""Servers and tunnels of admission webhooks: their configuration.

They are given in `settings.admission.server`. Serving of webhooks comes in a later version;
until then, the classes keep what they are configured with, and refuse to be started.
"""
from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    import ssl

    from kopf._types import WebhookClientConfig, WebhookFn

    StrPath = str | os.PathLike[str]


class _Endpoint:
    """What all servers and tunnels have in common."""

    addr: str | None
    port: int | None
    path: str | None

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: Any) -> None:
        pass

    def __call__(self, fn: WebhookFn) -> AsyncIterator[WebhookClientConfig]:
        raise NotImplementedError("Admission webhooks are not served yet.")


class WebhookServer(_Endpoint):
    """A local HTTPS server, reachable from the cluster by a host name or an address."""

    DEFAULT_HOST: str | None = None

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

    @staticmethod
    def build_certificate(
            hostnames: Collection[str],
            password: str | None = None,
    ) -> tuple[bytes, bytes]:
        """A self-signed certificate and its private key, both in PEM."""
        raise NotImplementedError("Certificates of webhooks are not made yet.")


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
    """Finds out which local cluster the operator is connected to."""

    @staticmethod
    async def guess_host() -> str | None:
        """The host name under which the cluster sees this machine, if it is a known cluster."""
        raise NotImplementedError("Admission webhooks are not served yet.")


class WebhookAutoServer(ClusterDetector, WebhookServer):
    """A local server whose host name is guessed from the cluster."""


class WebhookNgrokTunnel(_Endpoint):
    """A tunnel of ngrok to a local server."""

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


class WebhookAutoTunnel(ClusterDetector, _Endpoint):
    """A local server if the cluster is known, or a tunnel to it if not."""

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

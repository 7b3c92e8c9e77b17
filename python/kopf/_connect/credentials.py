"""Credentials: what login handlers return, and how Kopf describes it to the engine."""
from __future__ import annotations

import base64
import dataclasses
import datetime
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kopf._errors import PermanentError

if TYPE_CHECKING:
    import ssl

    from kopf._declare.handlers import Handler

_Path = str | bytes | os.PathLike | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class KubeContext:
    """What all credentials have in common."""

    server: str
    priority: int = 0
    default_namespace: str | None = None
    expiration: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectionInfo(KubeContext):
    """Where the API is, and how to authenticate to it.

    Of each pair `…_path` and `…_data`, set only one; the data is PEM or its base64. Kopf reads a
    token in a file (`token_path`) again when the file changes. The representation shows no secrets,
    so that it can be logged.
    """

    ca_path: _Path = None
    ca_data: str | bytes | None = None
    insecure: bool | None = None
    username: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)
    scheme: str | None = None
    token: str | None = dataclasses.field(default=None, repr=False)
    certificate_path: _Path = None
    certificate_data: str | bytes | None = None
    private_key_path: _Path = None
    private_key_data: str | bytes | None = dataclasses.field(default=None, repr=False)
    proxy_url: str | None = None
    trust_env: bool = False
    token_path: _Path = None

    def __post_init__(self) -> None:
        for name, title in (('ca', 'CA'), ('certificate', 'certificate'),
                            ('private_key', 'private key')):
            if getattr(self, f'{name}_path') and getattr(self, f'{name}_data'):
                raise ValueError(f"Both {title} path & data are set. Need only one.")

    def as_aiohttp_basic_auth(self) -> None:
        warnings.warn("as_aiohttp_basic_auth() is deprecated: as_http_headers() has all of it.",
                      DeprecationWarning, stacklevel=2)

    def as_http_headers(self) -> dict[str, str]:
        """The headers of authenticated requests."""
        if self.username and self.password:
            pair = f'{self.username}:{self.password}'.encode('latin1')
            return {'Authorization': f'Basic {base64.b64encode(pair).decode("ascii")}'}
        value = ' '.join(part for part in (self.scheme or (self.token and 'Bearer'), self.token)
                         if part)
        return {'Authorization': value} if value else {}

    def as_ssl_context(self) -> ssl.SSLContext:
        """The context of TLS connections, for clients in Python."""
        import contextlib
        import ssl
        import tempfile
        with contextlib.ExitStack() as stack:

            def save(path: Any, data: str | bytes | None) -> Any:
                if path or not data:
                    return path
                file = stack.enter_context(tempfile.NamedTemporaryFile(buffering=0))
                file.write(decode_pem(data).encode('ascii'))
                return file.name

            context = ssl.create_default_context(
                cafile=self.ca_path,
                cadata=decode_pem(self.ca_data) if self.ca_data is not None else None)
            certificate = save(self.certificate_path, self.certificate_data)
            private_key = save(self.private_key_path, self.private_key_data)
            if certificate and private_key:
                context.load_cert_chain(certfile=certificate, keyfile=private_key)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class DelegatedConnectionInfo(ConnectionInfo):
    """A connection of a kubeconfig that needs plugins: the engine reads the kubeconfig itself."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AiohttpSession(KubeContext):
    """A ready-made HTTP session. It is not supported: the engine makes its own connections."""

    aiohttp_session: Any


class Vault:
    """Ready-made credentials for embedded operators, instead of login handlers."""

    def __init__(self, src: Mapping[str, object] | None = None, /) -> None:
        self._items: dict[str, KubeContext] = {}
        for key, info in (src or {}).items():
            if not isinstance(info, KubeContext):
                raise ValueError("Only ConnectionInfo instances are accepted.")
            self._items[str(key)] = info

    def is_empty(self) -> bool:
        return not self._items

    def get_infos(self) -> Mapping[str, KubeContext]:
        """The credentials by their names."""
        return self._items


def describe(handler: Handler, info: Any) -> dict[str, Any]:
    """The credentials as data for the engine. Certificates and keys are always PEM there."""
    if isinstance(info, AiohttpSession):
        raise PermanentError(f"{handler} has returned a kopf.AiohttpSession, which is not "
                             f"supported: the engine makes its own connections. Return a "
                             f"kopf.ConnectionInfo(server=..., token=...) instead.")
    if not isinstance(info, ConnectionInfo):
        raise PermanentError(f"{handler} has returned {type(info).__name__} instead of "
                             f"kopf.ConnectionInfo or None.")
    description: dict[str, Any] = {
        'server': info.server,
        'insecure': bool(info.insecure),
        'username': info.username,
        'password': info.password,
        'scheme': info.scheme,
        'token': info.token,
        'default_namespace': info.default_namespace,
        'proxy_url': info.proxy_url,
        'trust_env': bool(info.trust_env),
        'expiration': _format_time(info.expiration),
        'priority': info.priority,
        'kubeconfig': isinstance(info, DelegatedConnectionInfo),
    }
    for name in ('ca_path', 'certificate_path', 'private_key_path', 'token_path'):
        path = getattr(info, name)
        description[name] = os.fsdecode(path) if path else None
    for name in ('ca_data', 'certificate_data', 'private_key_data'):
        data = getattr(info, name)
        description[name] = decode_pem(data) if data else None
    return description


def decode_pem(data: str | bytes) -> str:
    """Decode PEM, or base64 of PEM."""
    content = data.encode('ascii') if isinstance(data, str) else data
    if not content.lstrip().startswith(b'-----BEGIN '):
        content = base64.b64decode(content)
    return content.decode('ascii')


def _format_time(moment: datetime.datetime | None) -> str | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.timezone.utc)
    return moment.isoformat()

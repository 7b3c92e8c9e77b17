"""Ways to log in: by client libraries, by a kubeconfig, by a service account.

They are login handlers, and can be called from users' own login handlers. If an operator has
none, `choose_fallbacks` picks the suitable ones: those of the client libraries that the
user's code has imported, so that the login configures them, too; or else our own. A library that
is imported later, maybe inside a handler, is configured right after its import.

While an embedded cluster is active, all of them log in to it with its kubeconfig, even in pods.
"""
from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kopf._connect import active_cluster, client_libraries
from kopf._connect.credentials import ConnectionInfo, DelegatedConnectionInfo
from kopf._connect.import_hooks import Finder
from kopf._errors import LoginError

if TYPE_CHECKING:
    from kopf._declare.settings import OperatorSettings
    from kopf._objects.typedefs import Logger

# Kopf prefers the credentials with the highest priority.
PRIORITY_OF_CLIENT = 10
PRIORITY_OF_ASYNC_CLIENT = 15
PRIORITY_OF_PYKUBE = 20
PRIORITY_OF_KUBECONFIG = 10
PRIORITY_OF_SERVICE_ACCOUNT = 20

_SECRETS = client_libraries.SERVICE_ACCOUNT


def choose_fallbacks() -> list[Callable[..., Any]]:
    """The ways to log in when the operator has no login handlers."""
    fns: list[Callable[..., Any]] = []
    if 'pykube' in sys.modules:
        fns.append(login_via_pykube)
    if 'kubernetes' in sys.modules:
        fns.append(login_via_client)
    elif 'kubernetes_asyncio' in sys.modules:
        fns.append(login_via_async_client)
    if not fns:
        if has_kubeconfig():
            fns.append(login_with_kubeconfig)
        if has_service_account() and active_cluster.get_kubeconfig() is None:
            fns.append(login_with_service_account)
    configure_when_imported()
    return fns


def login_via_client(
        *,
        logger: Logger,
        settings: OperatorSettings,
        **_: Any,
) -> ConnectionInfo | None:
    """Log in as the client library ``kubernetes`` does, and configure the library, too.

    Returns None if the library is not installed. Call it from a login handler with its kwargs::

        @kopf.on.login()
        def log_in(**kwargs):
            return kopf.login_via_client(**kwargs)

    Args:
        logger, settings: The kwargs of the login handler.
    """
    try:
        import kubernetes.client
        import kubernetes.config
    except ImportError:
        return None
    embedded = active_cluster.get_kubeconfig()
    try:
        if embedded is not None:  # not even in a pod
            raise kubernetes.config.ConfigException("There is an embedded cluster.")
        kubernetes.config.load_incluster_config()
        logger.debug("Client is configured in cluster with service account.")
    except kubernetes.config.ConfigException:
        try:
            kubernetes.config.load_kube_config(**_as_kwargs('config_file', embedded))
            logger.debug("Client is configured via kubeconfig file.")
        except kubernetes.config.ConfigException as error:
            raise LoginError("Cannot authenticate the client library "
                             "neither in-cluster, nor via kubeconfig.") from error
    config = kubernetes.client.Configuration.get_default_copy()
    # The name of the key has changed in the version 36 of the library.
    header = (config.get_api_key_with_prefix('BearerToken') or
              config.get_api_key_with_prefix('authorization'))
    scheme, token = _split_header(header)
    return ConnectionInfo(
        server=config.host,
        ca_path=config.ssl_ca_cert,
        insecure=not config.verify_ssl,
        username=config.username or None,
        password=config.password or None,
        scheme=scheme,
        token=token,
        certificate_path=config.cert_file,
        private_key_path=config.key_file,
        trust_env=settings.networking.trust_env,
        priority=PRIORITY_OF_CLIENT,
    )


async def login_via_async_client(
        *,
        logger: Logger,
        settings: OperatorSettings,
        **_: Any,
) -> ConnectionInfo | None:
    """Log in as the client library ``kubernetes_asyncio`` does, and configure the library, too.

    Returns None if the library is not installed. Await it in a login handler with its kwargs.

    Args:
        logger, settings: The kwargs of the login handler.
    """
    try:
        import kubernetes_asyncio.client
        import kubernetes_asyncio.config
    except ImportError:
        return None
    embedded = active_cluster.get_kubeconfig()
    try:
        if embedded is not None:  # not even in a pod
            raise kubernetes_asyncio.config.ConfigException("There is an embedded cluster.")
        kubernetes_asyncio.config.load_incluster_config()
        logger.debug("Async client is configured in cluster with service account.")
    except kubernetes_asyncio.config.ConfigException:
        try:
            await kubernetes_asyncio.config.load_kube_config(
                **_as_kwargs('config_file', embedded))
            logger.debug("Async client is configured via kubeconfig file.")
        except kubernetes_asyncio.config.ConfigException as error:
            raise LoginError("Cannot authenticate the async client library "
                             "neither in-cluster, nor via kubeconfig.") from error
    config = kubernetes_asyncio.client.Configuration.get_default_copy()
    header: Any = config.get_api_key_with_prefix('BearerToken')
    if inspect.isawaitable(header):
        header = await header
    scheme, token = _split_header(header)
    return ConnectionInfo(
        server=config.host or '',
        ca_path=config.ssl_ca_cert,
        insecure=not config.verify_ssl,
        username=config.username or None,
        password=config.password or None,
        scheme=scheme,
        token=token,
        certificate_path=config.cert_file,
        private_key_path=config.key_file,
        proxy_url=config.proxy,
        trust_env=settings.networking.trust_env,
        priority=PRIORITY_OF_ASYNC_CLIENT,
    )


def login_via_pykube(
        *,
        logger: Logger,
        settings: OperatorSettings,
        **_: Any,
) -> ConnectionInfo | None:
    """Log in as the client library ``pykube-ng`` does. Returns None if it is not installed.

    Args:
        logger, settings: The kwargs of the login handler.
    """
    try:
        import pykube
    except ImportError:
        return None
    embedded = active_cluster.get_kubeconfig()
    try:
        if embedded is not None:  # not even in a pod
            raise FileNotFoundError("There is an embedded cluster.")
        config = pykube.KubeConfig.from_service_account()
        logger.debug("Pykube is configured in cluster with service account.")
    except FileNotFoundError:
        try:
            config = pykube.KubeConfig.from_file(**_as_kwargs('filename', embedded))
            logger.debug("Pykube is configured via kubeconfig file.")
        except (pykube.PyKubeError, FileNotFoundError) as error:
            raise LoginError("Cannot authenticate pykube "
                             "neither in-cluster, nor via kubeconfig.") from error

    # The library asks its auth-providers for a token only when it makes a request.
    provided_token = None
    if config.user.get('auth-provider'):
        pykube.HTTPClient(config).get(version='', base='/')
        provider = config.user.get('auth-provider') or {}
        provided_token = (provider.get('config') or {}).get('access-token')

    authority = config.cluster.get('certificate-authority')
    certificate = config.user.get('client-certificate')
    private_key = config.user.get('client-key')
    return ConnectionInfo(
        server=config.cluster.get('server'),
        ca_path=authority.filename() if authority else None,
        insecure=config.cluster.get('insecure-skip-tls-verify'),
        username=config.user.get('username'),
        password=config.user.get('password'),
        token=config.user.get('token') or provided_token,
        certificate_path=certificate.filename() if certificate else None,
        private_key_path=private_key.filename() if private_key else None,
        default_namespace=config.namespace,
        proxy_url=config.cluster.get('proxy-url'),
        trust_env=settings.networking.trust_env,
        priority=PRIORITY_OF_PYKUBE,
    )


def login_with_service_account(*, settings: OperatorSettings, **_: Any) -> ConnectionInfo | None:
    """Log in with the service account of the pod. Returns None outside of pods.

    Args:
        settings: The kwarg of the login handler.
    """
    if not has_service_account():
        return None
    if active_cluster.get_kubeconfig() is not None:
        return login_with_kubeconfig(settings=settings)
    token_path, authority_path = f'{_SECRETS}/token', f'{_SECRETS}/ca.crt'
    return ConnectionInfo(
        server='https://kubernetes.default.svc',
        ca_path=authority_path if os.path.exists(authority_path) else None,
        token=_read(token_path),
        token_path=token_path,
        default_namespace=_read(f'{_SECRETS}/namespace'),
        trust_env=settings.networking.trust_env,
        priority=PRIORITY_OF_SERVICE_ACCOUNT,
    )


def login_with_kubeconfig(*, settings: OperatorSettings, **_: Any) -> ConnectionInfo | None:
    """Log in with the current context of the kubeconfig: ``$KUBECONFIG`` or ``~/.kube/config``.

    Returns None if there is none.

    Args:
        settings: The kwarg of the login handler.
    """
    from kopf._connect import kubeconfig
    paths = kubeconfig.find_files()
    if not paths:
        return None
    config = kubeconfig.load(paths)
    cluster, user = config.cluster, config.user
    provider = (user.get('auth-provider') or {}).get('config') or {}
    token = user.get('token') or provider.get('access-token')
    delegated = 'exec' in user or ('auth-provider' in user and not token)
    cls = DelegatedConnectionInfo if delegated else ConnectionInfo
    return cls(
        server=cluster.get('server', ''),
        ca_path=config.locate(cluster.get('certificate-authority')),
        ca_data=cluster.get('certificate-authority-data'),
        insecure=cluster.get('insecure-skip-tls-verify'),
        certificate_path=config.locate(user.get('client-certificate')),
        certificate_data=user.get('client-certificate-data'),
        private_key_path=config.locate(user.get('client-key')),
        private_key_data=user.get('client-key-data'),
        username=user.get('username'),
        password=user.get('password'),
        token=token,
        token_path=config.locate(user.get('tokenFile')),
        default_namespace=config.namespace,
        proxy_url=cluster.get('proxy-url'),
        trust_env=settings.networking.trust_env,
        priority=PRIORITY_OF_KUBECONFIG,
    )


def has_kubeconfig() -> bool:
    from kopf._connect import kubeconfig
    return bool(kubeconfig.find_files())


def has_service_account() -> bool:
    return os.path.exists(f'{_SECRETS}/token')


def _as_kwargs(name: str, value: str | None) -> dict[str, Any]:
    """The argument, if there is a value; otherwise, the library uses its default."""
    return {} if value is None else {name: value}


def _read(path: str) -> str | None:
    if not os.path.exists(path):
        return None
    with open(path, encoding='utf-8') as file:
        return file.read().strip() or None


def _split_header(header: str | None) -> tuple[str | None, str | None]:
    """The scheme and the token of an Authorization header; the scheme may be absent."""
    parts = header.split(' ', 1) if header else []
    if len(parts) == 2:
        return parts[0], parts[1]
    return None, parts[0] if parts else None


def configure_when_imported() -> None:
    """Configure the client libraries whenever they are imported, from now on."""
    if _configuring not in sys.meta_path:
        sys.meta_path.insert(0, _configuring)


def _configure_imported(library: Any) -> None:
    """Configure a library as it does itself by default; or for the embedded cluster."""
    kubeconfig = active_cluster.get_kubeconfig()
    if kubeconfig is not None:
        client_libraries.load_kubeconfig(library.config, kubeconfig)
        return
    try:
        library.config.load_incluster_config()
    except library.config.ConfigException:
        client_libraries.load_kubeconfig(library.config, None)


# Pykube has no global configuration: its users always load it themselves.
_configuring = Finder({
    'kubernetes': _configure_imported,
    'kubernetes_asyncio': _configure_imported,
})

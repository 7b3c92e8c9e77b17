"""While an embedded cluster is active, the client libraries in the user's code use it.

It does not matter when they are imported; nothing here imports them. Most libraries follow the
variables of the environment. This module does what the variables do not reach: what a library has
read or loaded before, and the service account of the pod. It restores all of it in the end.
`active_cluster` calls it.
"""
from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import os
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from kopf._connect.import_hooks import Finder

logger = logging.getLogger('kopf')

SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'

# Where libraries look for the service account while it is hidden. The folder does not exist.
NOWHERE = '/nonexistent/kopf/serviceaccount'

# These read `$KUBECONFIG` only once, when they are imported; and all have a default configuration.
_PACKAGES = {
    'kubernetes': '~/.kube/config',
    'kubernetes.aio': os.path.expanduser('~/.kube/config'),
    'kubernetes_asyncio': os.path.expanduser('~/.kube/config'),
}

# These look for the service account first, at a path which is a default value of these functions.
_METHODS = {
    'pykube': ('pykube.config', 'KubeConfig', ['from_service_account']),
    'lightkube': ('lightkube.config.kubeconfig', 'KubeConfig',
                  ['from_service_account', 'from_env']),
}

# The original values in the libraries, by the names of the modules.
_locations: dict[str, str] = {}
_configurations: dict[str, Any] = {}
_hidden: list[tuple[FunctionType, tuple[Any, ...], tuple[Any, ...]]] = []

# Everything that Kopf has set in this process: these are never original values.
_own_locations: set[str] = set()
_own_servers: set[str] = set()


def lead_to(kubeconfig: str, server: str) -> None:
    """Direct the libraries to an embedded cluster that has just started."""
    _own_locations.add(kubeconfig)
    _own_servers.add(server)
    for name, module in _get_modules():
        if module.KUBE_CONFIG_DEFAULT_LOCATION not in _own_locations:
            _locations[name] = module.KUBE_CONFIG_DEFAULT_LOCATION
        module.KUBE_CONFIG_DEFAULT_LOCATION = kubeconfig
    for package, cls in _get_configuration_classes():
        if cls._default is not None:
            if cls._default.host not in _own_servers:
                _configurations[package] = cls._default
            _configure_default(package, cls, kubeconfig)
    _forget_clients_of_kr8s()
    hide_pod()


def go_back_to(kubeconfig: str, server: str) -> None:
    """Direct the libraries back to an earlier cluster, because a later one has ended."""
    for _, module in _get_modules():
        if module.KUBE_CONFIG_DEFAULT_LOCATION in _own_locations:
            module.KUBE_CONFIG_DEFAULT_LOCATION = kubeconfig
    for package, cls in _get_configuration_classes():
        if cls._default is not None and cls._default.host in _own_servers - {server}:
            _configure_default(package, cls, kubeconfig)
    _forget_clients_of_kr8s()


def restore() -> None:
    """Restore everything that others have not changed meanwhile."""
    for name, module in _get_modules():
        if module.KUBE_CONFIG_DEFAULT_LOCATION in _own_locations:
            package = name.partition('.config')[0]
            module.KUBE_CONFIG_DEFAULT_LOCATION = _locations.get(name) or os.environ.get(
                'KUBECONFIG', _PACKAGES[package])
    for package, cls in _get_configuration_classes():
        if cls._default is not None and cls._default.host in _own_servers:
            cls._default = _configurations.get(package)
    _locations.clear()
    _configurations.clear()
    _forget_clients_of_kr8s()
    if _hiding in sys.meta_path:
        sys.meta_path.remove(_hiding)
    for function, before, changed in _hidden:
        if function.__defaults__ == changed:
            function.__defaults__ = before
    _hidden.clear()


def hide_pod() -> None:
    """Make the libraries behave as if this process did not run in a pod.

    Most do so without the variables of pods, which are hidden already. But some have found the
    token by then, and fail instead of looking for a kubeconfig.
    """
    if not os.path.exists(SERVICE_ACCOUNT):
        return
    for library in _METHODS:
        if library in sys.modules:
            _hide_service_account(sys.modules[library])
    if _hiding not in sys.meta_path:
        sys.meta_path.insert(0, _hiding)


def _hide_service_account(library: ModuleType) -> None:
    module_name, class_name, method_names = _METHODS[library.__name__]
    cls = getattr(sys.modules.get(module_name), class_name, None)
    for name in method_names:
        function = getattr(getattr(cls, name, None), '__func__', None)
        if not isinstance(function, FunctionType) or not function.__defaults__:
            continue
        before = function.__defaults__
        changed = tuple(NOWHERE if str(value) == SERVICE_ACCOUNT else value for value in before)
        if changed != before:
            function.__defaults__ = changed
            _hidden.append((function, before, changed))


def _get_modules() -> Iterator[tuple[str, Any]]:
    """The imported modules that remember the path of the kubeconfig."""
    for package in _PACKAGES:
        for name in f'{package}.config.kube_config', f'{package}.config':
            module = sys.modules.get(name)
            if isinstance(getattr(module, 'KUBE_CONFIG_DEFAULT_LOCATION', None), str):
                yield name, module


def _get_configuration_classes() -> Iterator[tuple[str, Any]]:
    """The imported classes that keep the default configuration of all clients."""
    for package in _PACKAGES:
        cls = getattr(sys.modules.get(f'{package}.client.configuration'), 'Configuration', None)
        if hasattr(cls, '_default') and hasattr(cls, 'set_default'):
            yield package, cls


def _configure_default(package: str, cls: Any, kubeconfig: str) -> None:
    # Clients without a configuration are useless, but those of another cluster do harm.
    cls.set_default(None)
    try:
        load_kubeconfig(importlib.import_module(f'{package}.config'), kubeconfig)
    except Exception as error:
        logger.debug(f"The client library {package!r} is not configured: {error}")


def _forget_clients_of_kr8s() -> None:
    """The library caches its clients, also those of another cluster."""
    instances = getattr(getattr(sys.modules.get('kr8s._api'), 'Api', None), '_instances', None)
    if isinstance(instances, dict):
        instances.clear()


def load_kubeconfig(config: Any, kubeconfig: str | None) -> None:
    """Load it with the library's own function, whether that is a coroutine function or not."""
    kwargs = {} if kubeconfig is None else {'config_file': kubeconfig}
    result = config.load_kube_config(**kwargs)
    if inspect.iscoroutine(result):
        from concurrent.futures import ThreadPoolExecutor

        # This thread may run an event loop, and must not block on it.
        with ThreadPoolExecutor(1) as executor:
            executor.submit(asyncio.run, result).result()


_hiding = Finder(dict.fromkeys(_METHODS, _hide_service_account))

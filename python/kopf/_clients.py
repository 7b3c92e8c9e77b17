"""Client libraries in the user's code get configured with the credentials of the operator.

A library that is imported before the login is configured by the login itself. One that is
imported later, maybe inside of a handler, is configured right after its import. None of
them is ever imported from here.
"""
from __future__ import annotations

import importlib.machinery
import logging
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, cast

logger = logging.getLogger('kopf')


def configure_when_imported() -> None:
    """Have the libraries configured whenever they are imported, from now on."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _configure_sync(module: Any) -> None:
    try:
        module.config.load_incluster_config()
    except module.config.ConfigException:
        module.config.load_kube_config()


def _configure_async(module: Any) -> None:
    try:
        module.config.load_incluster_config()
    except module.config.ConfigException:
        import asyncio
        import threading
        # There may be a running event loop in this thread, which cannot be waited for here.
        thread = threading.Thread(target=lambda: asyncio.run(module.config.load_kube_config()))
        thread.start()
        thread.join()


# Pykube has no global configuration: its users always load it themselves.
_CONFIGURATORS: dict[str, Callable[[Any], None]] = {
    'kubernetes': _configure_sync,
    'kubernetes_asyncio': _configure_async,
}


class _Finder:
    """Wraps the loaders of these libraries, and leaves all others alone."""

    def find_spec(
            self,
            fullname: str,
            path: Sequence[str] | None,
            target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _CONFIGURATORS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = cast(Any, _Loader(spec.loader))
        return spec


class _Loader:
    """Loads a library as usual, then configures it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        try:
            _CONFIGURATORS[module.__name__](module)
        except Exception as error:
            # The operator itself is logged in. The user's code will see its own error, if any.
            logger.debug(f"The client library {module.__name__!r} is not configured: {error}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

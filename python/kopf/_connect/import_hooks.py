"""Runs a function on a library right after its import, wherever and whenever that happens.

`logins` configures libraries this way; `client_libraries` hides the service account from them.
"""
from __future__ import annotations

import importlib.machinery
import logging
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, cast

logger = logging.getLogger('kopf')


class Finder:
    """Wraps the loaders of these libraries, and leaves all others alone."""

    def __init__(self, actions: Mapping[str, Callable[[Any], None]]) -> None:
        self._actions = actions

    def find_spec(
            self,
            fullname: str,
            path: Sequence[str] | None,
            target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._actions:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = cast(Any, Loader(spec.loader, self._actions[fullname]))
        return spec


class Loader:
    """Loads a library as usual, then configures it."""

    def __init__(self, loader: Any, action: Callable[[Any], None]) -> None:
        self._loader = loader
        self._action = action

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        try:
            self._action(module)
        except Exception as error:
            # The operator itself is logged in. The user's code will see its own error, if any.
            logger.debug(f"The client library {module.__name__!r} is not configured: {error}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

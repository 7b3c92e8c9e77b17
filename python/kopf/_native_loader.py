"""Loads a native module, or explains why it cannot be loaded here.

There are two: `kopf._native` is the engine; `kopf._native_cluster` is the embedded cluster, which
only `kopf dev`, `kopf cluster` and `kopf.testing` need. `kopf.__getattr__` calls this.
"""
from __future__ import annotations

import importlib
import os
import sys
import types


def load_native(name: str) -> types.ModuleType:
    """Import the native module; Python's errors are for developers, ours are for users."""
    try:
        return importlib.import_module(f'kopf.{name}')
    except ImportError as error:
        import sysconfig
        files = sorted(os.listdir(os.path.dirname(__file__)))
        reason = explain(
            error,
            implementation=sys.implementation.name,
            free_threaded=bool(sysconfig.get_config_var('Py_GIL_DISABLED')),
            files=[file for file in files
                   if file.startswith(f'{name}.') and not file.endswith('.pyi')],
        )
        raise ImportError(reason, name=f'kopf.{name}', path=error.path) from error


def explain(
        error: ImportError,
        *,
        implementation: str,
        free_threaded: bool,
        files: list[str],
) -> str:
    """What is wrong, and what to do about it."""
    title = "The native module of kopf cannot be loaded"
    if implementation != 'cpython':
        return f"{title}: it needs CPython, but this is {implementation}."
    if free_threaded:
        return (f"{title}: it is not built for the free-threaded Python. "
                f"Use the regular build of the same version.")
    if not files:
        return (f"{title}: it is not there. The package was installed for another platform, "
                f"or from its sources without a build: install a wheel, or run `make build`.")
    return f"{title} ({', '.join(files)}): {error}"

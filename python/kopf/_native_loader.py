"""Loads the native module, or tells why it cannot be loaded here."""
from __future__ import annotations

import importlib
import os
import sys
import types

_NAME = 'kopf._native'


def load_native() -> types.ModuleType:
    """The native module; its errors are for developers, ours are for users."""
    try:
        return importlib.import_module(_NAME)
    except ImportError as error:
        import sysconfig
        files = sorted(os.listdir(os.path.dirname(__file__)))
        reason = explain(
            error,
            implementation=sys.implementation.name,
            free_threaded=bool(sysconfig.get_config_var('Py_GIL_DISABLED')),
            files=[name for name in files
                   if name.startswith('_native.') and not name.endswith('.pyi')],
        )
        raise ImportError(reason, name=_NAME, path=error.path) from error


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

"""Loads users' files and modules, so that their decorators register the handlers."""
from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable


def preload(paths: Iterable[str], modules: Iterable[str]) -> None:
    """Load the files and import the modules, in this order.

    A file may have any name, even that of a module (`operator.py`): Kopf loads it under
    a unique name. Its imports search its own folder first.
    """
    for index, path in enumerate(paths):
        folder = os.path.abspath(os.path.dirname(path))
        sys.path.insert(0, folder)
        name = f'__kopf_script_{index}__{path}'
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"Failed loading {path}: it is not a Python file.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    for name in modules:
        importlib.import_module(name)

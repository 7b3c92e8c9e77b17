"""Imports asyncio without OpenSSL: a tenth of the memory of a small operator, never used.

The engine has a TLS of its own. The event loop of asyncio needs the modules of TLS only when
a connection with TLS is opened in it; so they are loaded then, or when anybody imports them.
"""
from __future__ import annotations

import importlib
import sys
import types
from typing import Any

#: Asyncio refers to these, and uses them only for connections.
_PUT_OFF = ('ssl', 'asyncio.sslproto')


class _StandIn(types.ModuleType):
    """A module that asyncio can refer to; what is in it, comes from the real one."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:  # asyncio needs it at once
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def import_asyncio() -> None:
    """Import asyncio, for the first time in this process if it is to have any effect."""
    if 'asyncio' in sys.modules or 'ssl' in sys.modules:
        return
    stand_ins = {name: _StandIn(name) for name in _PUT_OFF}
    sys.modules.update(stand_ins)
    try:
        import asyncio  # noqa: F401
    finally:
        # Others get the real ones.
        for name, module in stand_ins.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]

"""Signals that stop operators: all operators of one event loop, and nothing else.

An application around an operator may have its own signal handlers, as web servers do. Kopf calls
them, too, and restores them when the last operator ends.
"""
from __future__ import annotations

import asyncio
import functools
import os
import signal
import threading
import weakref
from collections.abc import Callable
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_Listener = Callable[[int], None]


class _Subscribers:
    """The operators of one event loop, and the signal handlers before them."""

    def __init__(self) -> None:
        self.listeners: set[_Listener] = set()
        self.former: dict[int, Any] = {}


_subscribers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Subscribers]
_subscribers = weakref.WeakKeyDictionary()


class SignalsIgnoredError(Exception):
    """Signals cannot be received here."""


def subscribe(loop: asyncio.AbstractEventLoop, listener: _Listener) -> None:
    """Call the listener on signals. Only in the thread of the event loop."""
    if threading.current_thread() is not threading.main_thread():
        raise SignalsIgnoredError("running not in the main thread")
    subscribers = _subscribers.setdefault(loop, _Subscribers())
    if not subscribers.listeners:
        try:
            for number in SIGNALS:
                subscribers.former[number] = signal.getsignal(number)
                loop.add_signal_handler(number, _on_signal, loop, number)
        except NotImplementedError:
            raise SignalsIgnoredError("can't add signal handler in Windows") from None
    subscribers.listeners.add(listener)


def unsubscribe(loop: asyncio.AbstractEventLoop, listener: _Listener) -> None:
    """Remove the listener. The last one restores the previous signal handlers."""
    subscribers = _subscribers.get(loop)
    if subscribers is None or listener not in subscribers.listeners:
        return
    subscribers.listeners.discard(listener)
    if not subscribers.listeners:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            former = subscribers.former.pop(number, None)
            if callable(former):
                signal.signal(number, former)


def exit_at_once(
        loop: asyncio.AbstractEventLoop, number: int, announce: Callable[[], None],
) -> None:
    """End the process by the signal, unless the application has its own handler for it."""
    subscribers = _subscribers.get(loop)
    former = subscribers.former.get(number) if subscribers is not None else None
    if callable(former) and not _is_default(former):
        return
    announce()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _on_signal(loop: asyncio.AbstractEventLoop, number: int) -> None:
    subscribers = _subscribers.get(loop)
    if subscribers is None:
        return
    for listener in list(subscribers.listeners):
        listener(number)
    former = subscribers.former.get(number)
    if callable(former) and not _is_default(former):
        former(number, None)


def _is_default(handler: Any) -> bool:
    """Whether it only interrupts the running code, as Python and `asyncio.run()` do."""
    if isinstance(handler, functools.partial):
        handler = handler.func
    module = getattr(handler, '__module__', None) or ''
    return handler is signal.default_int_handler or module.startswith('asyncio')

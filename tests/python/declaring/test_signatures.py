"""The warnings about functions that cannot be called with the kwargs of the framework."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import pytest

import kopf
from kopf._declare.signatures import find_mismatch, warn_about_mismatches

NAMES = {'body', 'spec', 'logger'}


def taking_all(**kwargs: Any) -> None: ...


def taking_some(spec: Any, *, logger: Any = None, **_: Any) -> None: ...


def requiring_more(addon: Any, spec: Any, **_: Any) -> None: ...


def too_strict(body: Any, spec: Any) -> None: ...


def adding(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(**kwargs: Any) -> Any:
        return fn(addon='addon', **kwargs)

    return wrapper


def passing(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(spec: Any) -> Any:
        return fn(spec=spec)

    return wrapper


class Proxy:
    """As the decorators of wrapt: it pretends to be what it wraps, and is called otherwise."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.__wrapped__ = fn

    @property
    def __class__(self) -> type:
        return type(self.__wrapped__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __call__(self, **kwargs: Any) -> Any:
        return self.__wrapped__(addon='addon', **kwargs)


class Methods:
    def taking_all(self, **kwargs: Any) -> None: ...

    def requiring_more(self, addon: Any, **_: Any) -> None: ...


@pytest.mark.parametrize('fn', [
    taking_all,
    taking_some,
    adding(requiring_more),
    adding(adding(requiring_more)),
    adding(too_strict),
    Proxy(requiring_more),
    functools.partial(requiring_more, 'addon'),
    functools.partial(requiring_more, addon='addon'),
    functools.partial(adding(requiring_more), param=1),
    Methods().taking_all,
    print,
])
def test_functions_that_can_be_called(fn: Callable[..., Any]) -> None:
    assert find_mismatch(fn, NAMES) is None


@pytest.mark.parametrize('fn, problem', [
    (requiring_more, 'requires unknown arguments: addon.'),
    (Methods().requiring_more, 'requires unknown arguments: addon.'),
    (functools.partial(requiring_more, spec=1), 'requires unknown arguments: addon.'),
    (too_strict, 'does not accept all the arguments of handlers: add **kwargs to it.'),
    (passing(taking_all), 'does not accept all the arguments of handlers: add **kwargs to it.'),
])
def test_functions_that_cannot_be_called(fn: Callable[..., Any], problem: str) -> None:
    assert find_mismatch(fn, NAMES) == problem


def test_the_warning_names_the_function_that_is_called(caplog: pytest.LogCaptureFixture) -> None:
    registry = kopf.OperatorRegistry()
    kopf.on.create('kopfexamples', registry=registry)(adding(requiring_more))
    kopf.on.update('kopfexamples', registry=registry, id='strict')(passing(taking_all))
    handlers = registry._changing.get_all_handlers()
    with caplog.at_level(logging.WARNING, logger='kopf'):
        warn_about_mismatches(handlers, indices=())
    [message] = caplog.messages
    assert "Handler 'strict' will fail when called" in message
    assert __file__ in message

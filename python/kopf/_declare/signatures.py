"""Checks at the start that functions can be called with the kwargs of their handlers.

Otherwise, a handler fails in every call with a TypeError. One warning at the start, with the file
and the line, is easier to notice. Only the outermost function counts: a wrapper may add arguments
for the function that it wraps, or take some away.
"""
from __future__ import annotations

import functools
import inspect
import logging
import types
from collections.abc import Callable, Collection, Iterable
from typing import Any

from kopf._declare.handlers import Handler, WebhookType

logger = logging.getLogger('kopf')

_COMMON = frozenset({'param', 'retry', 'started', 'runtime', 'logger', 'memo'})
_ACTIVITY = _COMMON | {'activity', 'settings'}
_RESOURCE = _COMMON | {
    'resource', 'patch', 'body', 'spec', 'meta', 'status', 'uid', 'name', 'namespace', 'labels',
    'annotations'}
_KWARGS = {
    'activity': _ACTIVITY,
    'watching': _RESOURCE | {'type', 'event'},
    'changing': _RESOURCE | {'reason', 'diff', 'old', 'new'},
    'indexing': _RESOURCE,
    'daemon': _RESOURCE | {'stopped'},
    'timer': _RESOURCE,
    'webhook': _RESOURCE | {
        'dryrun', 'headers', 'sslpeer', 'userinfo', 'warnings', 'operation', 'subresource',
        'old', 'new', 'diff'},
    'converting': _RESOURCE | {'from_version', 'to_version'},
}


def warn_about_mismatches(handlers: Iterable[Handler], indices: Collection[str]) -> None:
    """Log a warning for each function that cannot take the kwargs of its handlers."""
    seen: set[tuple[int, str]] = set()
    for handler in handlers:
        if (id(handler.fn), handler.kind) not in seen:
            seen.add((id(handler.fn), handler.kind))
            kind = handler.kind
            if getattr(handler, 'reason', None) == WebhookType.CONVERTING:
                kind = 'converting'
            problem = find_mismatch(handler.fn, _KWARGS[kind] | set(indices))
            if problem is not None:
                logger.warning(f"{handler} will fail when called: {_locate(handler.fn)} {problem}")


def find_mismatch(fn: Callable[..., Any], names: Collection[str]) -> str | None:
    """What prevents a function from being called with these kwargs, if anything."""
    bare = _strip(fn)
    if bare is None:
        return None  # a builtin or an unusual callable: nobody knows before the call
    try:
        parameters = inspect.signature(bare).parameters.values()
    except (TypeError, ValueError):
        return None  # such as a method without self
    required = [
        parameter.name for parameter in parameters
        if parameter.default is parameter.empty and
        parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) and
        (parameter.kind is parameter.POSITIONAL_ONLY or parameter.name not in names)
    ]
    if required:
        return f"requires unknown arguments: {', '.join(required)}."
    keywords = {parameter.name for parameter in parameters
                if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)}
    flexible = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    if not flexible and not keywords.issuperset(names):
        return "does not accept all the arguments of handlers: add **kwargs to it."
    return None


def _strip(fn: Any) -> Callable[..., Any] | None:
    """The same function without what decorators say about it: `__wrapped__`, `__signature__`.

    None if it is not written in Python, or is a proxy that pretends to be a function.
    """
    if type(fn) is types.FunctionType:
        bare = types.FunctionType(
            fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
        bare.__kwdefaults__ = fn.__kwdefaults__
        return bare
    if type(fn) is functools.partial:
        inner = _strip(fn.func)
        return functools.partial(inner, *fn.args, **fn.keywords) if inner is not None else None
    if type(fn) is types.MethodType:
        inner = _strip(fn.__func__)
        return types.MethodType(inner, fn.__self__) if inner is not None else None
    call = type(fn).__call__
    if type(call) is types.FunctionType:
        inner = _strip(call)
        return types.MethodType(inner, fn) if inner is not None else None
    return None


def _locate(fn: Callable[..., Any]) -> str:
    fn = getattr(fn, 'func', fn)
    name = getattr(fn, '__qualname__', repr(fn))
    code = getattr(fn, '__code__', None)
    return f'{name}() in {code.co_filename}:{code.co_firstlineno}' if code else f'{name}()'

"""Functions that cannot be called with the kwargs of the framework: named at the start.

Such a handler fails in every call with a TypeError. One warning with the file and the line
at the start is easier to notice.
"""
from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

from kopf._handlers import Handler, WebhookType

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
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return None  # a builtin or an exotic callable: it is not known until it is called
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


def _locate(fn: Callable[..., Any]) -> str:
    fn = inspect.unwrap(getattr(fn, 'func', fn))
    name = getattr(fn, '__qualname__', repr(fn))
    code = getattr(fn, '__code__', None)
    return f'{name}() in {code.co_filename}:{code.co_firstlineno}' if code else f'{name}()'

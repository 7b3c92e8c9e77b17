"""Values of users as JSON, or an error that tells which value is to blame.

Mappings of any class are objects, tuples are lists, enumerations of strings are strings.
Anything else that JSON does not know is refused, and so are NaN and infinities.
"""
from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kopf._errors import PermanentError


def encode(value: Any) -> str:
    return _encoder.encode(value)


def encode_or_blame(value: Any, tell_what: Callable[[], str]) -> str:
    """Encode a value; the callback begins the message of the error: who has put it where."""
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        path, culprit = next(_find_culprits(value, '', 0), ('', value))
        place = f" at {path.lstrip('.')!r}" if path else ''
        raise PermanentError(
            f"{tell_what()} is not JSON-compatible{place}: "
            f"{type(culprit).__name__} {_shorten(repr(culprit))}") from error


def _default(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


_encoder = json.JSONEncoder(separators=(',', ':'), allow_nan=False, default=_default)


def _find_culprits(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > 100:
        yield path, '(nested too deep)'
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, (str, int, float, bool)) and key is not None:
                yield f'{path}.{key}', key
            yield from _find_culprits(item, f'{path}.{key}', depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _find_culprits(item, f'{path}[{index}]', depth + 1)
    else:
        try:
            _encoder.encode(value)
        except (TypeError, ValueError):
            yield path, value


def _shorten(text: str) -> str:
    return text if len(text) <= 100 else f'{text[:97]}...'

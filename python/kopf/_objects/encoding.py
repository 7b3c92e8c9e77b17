"""Encodes users' values and texts for the engine, or says which value cannot be encoded.

Mappings of any class are objects, tuples are lists, enumerations of strings are strings.
Anything else that JSON does not know is an error, and so are NaN and infinities.

Python's strings can hold lone surrogates: `os.fsdecode()` makes them from bytes that are not UTF-8.
No other JSON parser accepts them in a text. Kubernetes replaces them with U+FFFD, and so do we.
"""
from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kopf._errors import PermanentError


def encode(value: Any) -> str:
    text = _encoder.encode(value)
    return _ESCAPES.sub(_replace_lone_surrogate, text) if '\\ud' in text else text


def encode_or_blame(value: Any, tell_what: Callable[[], str]) -> str:
    """Encode a value. The callback makes the start of the error message: who has put it where."""
    try:
        return encode(value)
    except Exception as error:  # mappings of users can raise anything
        raise blame(value, tell_what) or _refuse('', value, tell_what) from error


def blame(value: Any, tell_what: Callable[[], str]) -> PermanentError | None:
    """The error that names what cannot be encoded or read; None if everything can."""
    try:
        culprits = list(itertools.islice(_find_culprits(value, '', 0), 1))
    except Exception:
        culprits = [('', value)]
    return _refuse(*culprits[0], tell_what) if culprits else None


def _refuse(path: str, culprit: Any, tell_what: Callable[[], str]) -> PermanentError:
    place = f" at {describe(path.lstrip('.'))}" if path else ''
    return PermanentError(f"{tell_what()} is not JSON-compatible{place}: "
                          f"{type(culprit).__name__} {_shorten(describe(culprit))}")


def as_text(value: Any) -> str:
    """`str()` that never fails, as a text that every program can read."""
    try:
        return replace_surrogates(str(value))
    except Exception as error:
        return f"<{type(value).__name__}: its text is not available: {_name(error)} in __str__()>"


def describe(value: Any) -> str:
    """`repr()` that never fails, as a text that every program can read."""
    try:
        return replace_surrogates(repr(value))
    except Exception as error:
        return f"<{type(value).__name__}: its text is not available: {_name(error)} in __repr__()>"


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD for each lone surrogate; a plain string if it is of another class."""
    try:
        return text.encode().decode()
    except UnicodeEncodeError:
        return text.encode('utf-16-le', 'surrogatepass').decode('utf-16-le', 'replace')


def _default(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


_encoder = json.JSONEncoder(separators=(',', ':'), allow_nan=False, default=_default)


def _find_culprits(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > 100:
        yield path, '(nested too deep)'
    elif isinstance(value, Mapping):
        try:
            items = list(value.items())
        except Exception:
            yield path, value
            return
        for key, item in items:
            if not isinstance(key, (str, int, float, bool)) and key is not None:
                yield f'{path}.{as_text(key)}', key
            yield from _find_culprits(item, f'{path}.{as_text(key)}', depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _find_culprits(item, f'{path}[{index}]', depth + 1)
    else:
        try:
            _encoder.encode(value)
            if isinstance(value, int):
                float(value)  # JSON has no limit, but its readers have
        except Exception:
            yield path, value


#: What follows a backslash in JSON: a pair of surrogates, a lone one, or anything else.
_ESCAPES = re.compile(
    r'\\(?:ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(?P<lone>ud[89a-f][0-9a-f]{2})|.)')


def _replace_lone_surrogate(escape: re.Match[str]) -> str:
    return '\\ufffd' if escape['lone'] else escape[0]


def _name(error: BaseException) -> str:
    return type(error).__name__


def _shorten(text: str) -> str:
    return text if len(text) <= 100 else f'{text[:97]}...'

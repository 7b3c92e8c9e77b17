"""What a user's function has raised, classified for the engine. `invoke` calls this.

The native module maps these types to the engine's errors, in `crates/kopf-python/src/failures.rs`.
"""
from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

from kopf._errors import (
    AdmissionError,
    HandlerChildrenRetry,
    HandlerRetriesError,
    HandlerTimeoutError,
    PermanentError,
    TemporaryError,
)
from kopf._objects import encoding

if TYPE_CHECKING:
    from kopf._native import ErrorType


def classify(error: BaseException) -> ErrorType:
    """What the engine has to do about an error."""
    if isinstance(error, HandlerChildrenRetry):
        return 'children'
    if isinstance(error, TemporaryError):
        return 'temporary'
    if isinstance(error, HandlerTimeoutError):
        return 'timeout'
    if isinstance(error, HandlerRetriesError):
        return 'retries'
    if isinstance(error, PermanentError):
        return 'permanent'
    if isinstance(error, (asyncio.CancelledError, SystemExit, KeyboardInterrupt)):
        return 'cancelled'
    return 'arbitrary'


def get_code(error: AdmissionError) -> int | None:
    """The HTTP code of an admission error, if it is one."""
    code = getattr(error, 'code', None)
    return code if isinstance(code, int) and 0 < code < 1000 else None


def get_delay(error: TemporaryError) -> float | None:
    """The delay of an error in seconds, if it has one."""
    delay: Any = error.delay
    if delay is None:
        return None
    rule = f"The delay of {type(error).__name__} must be a number of seconds or None, but it is"
    try:
        seconds = math.nan if isinstance(delay, (str, bytes, bytearray)) else float(delay)
    except OverflowError:
        seconds = math.inf
    except Exception:
        seconds = math.nan
    if math.isnan(seconds):
        raise TypeError(f"{rule} a {type(delay).__name__}: {encoding.describe(delay)}")
    return seconds

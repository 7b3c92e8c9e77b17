"""What runs now. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._call.causes import Cause
from kopf._call.context import cause_var, handler_var, sublifecycle_var, subrefs_var
from kopf._call.context import settings_var as subsettings_var
from kopf._declare.handlers import Handler
from kopf._errors import (
    ErrorsMode,
    HandlerChildrenRetry,
    HandlerRetriesError,
    HandlerTimeoutError,
    PermanentError,
    TemporaryError,
)
from kopf.lifecycles import HandlerState, LifeCycleFn, State

__all__ = [
    'Cause', 'ErrorsMode', 'Handler', 'HandlerChildrenRetry', 'HandlerRetriesError',
    'HandlerState', 'HandlerTimeoutError', 'LifeCycleFn', 'PermanentError', 'State',
    'TemporaryError', 'cause_var', 'handler_var', 'sublifecycle_var', 'subrefs_var',
    'subsettings_var',
]

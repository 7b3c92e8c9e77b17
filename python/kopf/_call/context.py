"""The current call: its operator, its cause and its handler.

`invoke` sets these variables for each call of a user's function, in tasks and in threads, so that
`kopf.info()`, `kopf.adopt()`, `kopf.execute()` and others know which object they are about.
"""
from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf._call.causes import Cause
    from kopf._call.invoke import Invocation
    from kopf._declare.handlers import Handler
    from kopf._declare.settings import OperatorSettings
    from kopf._run.front import Front

front_var: ContextVar[Front] = ContextVar('front_var')
settings_var: ContextVar[OperatorSettings] = ContextVar('settings_var')
invocation_var: ContextVar[Invocation] = ContextVar('invocation_var')
cause_var: ContextVar[Cause] = ContextVar('cause_var')
handler_var: ContextVar[Handler] = ContextVar('handler_var')
sublifecycle_var: ContextVar[Any] = ContextVar('sublifecycle_var')
subrefs_var: ContextVar[Any] = ContextVar('subrefs_var')

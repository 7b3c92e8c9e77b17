"""The exceptions that handlers raise to say what should happen next.

Users raise them, `_call.invoke` classifies them for the engine, and the engine decides on retries.
The class relations are public: `except kopf.PermanentError` must also catch what Kopf derives
from it.
"""
from __future__ import annotations

import enum


class ErrorsMode(enum.Enum):
    """What Kopf does about an exception that is neither a temporary nor a permanent error."""

    IGNORED = enum.auto()
    TEMPORARY = enum.auto()
    PERMANENT = enum.auto()


class PermanentError(Exception):
    """The handler has failed for good: Kopf does not call it again for this change."""


class TemporaryError(Exception):
    """The handler has failed for now: Kopf calls it again after `delay` seconds.

    A delay of `None` means as soon as possible.
    """

    #: For subclasses that do not call our constructor: their handlers must not be retried at once.
    delay: float | None = 60

    def __init__(self, message: str | None = None, /, delay: float | None = 60) -> None:
        super().__init__(message)
        self.delay = delay


class HandlerTimeoutError(PermanentError):
    """The handler took longer, all attempts together, than its `timeout=` allows."""


class HandlerRetriesError(PermanentError):
    """The handler has used all attempts that its `retries=` allows."""


class HandlerChildrenRetry(TemporaryError):
    """Some sub-handlers have not finished: Kopf calls the parent again. Internal."""


class AdmissionError(PermanentError):
    """The handler rejects the admission request, with a message and an HTTP-like code."""

    def __init__(self, message: str | None = '', code: int | None = 500) -> None:
        super().__init__(message)
        self.code = code


class LoginError(Exception):
    """The operator cannot authenticate to the cluster."""


class OtherClusterError(LoginError, PermanentError):
    """The operator would log in to another cluster, although an embedded one is active."""


class ActivityError(Exception):
    """An activity of the operator (startup, cleanup, …) has failed for good."""

    def __init__(self, message: str, *, outcomes: object = None) -> None:
        super().__init__(message)
        self.outcomes = outcomes if outcomes is not None else {}


class EngineError(RuntimeError):
    """The engine has stopped because of an error, not by request."""

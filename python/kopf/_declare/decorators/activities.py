"""Decorators for the operator itself: its start, its end, its credentials, its probes."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kopf._declare.decorators.building import (
    Fn,
    add_activity,
)
from kopf._declare.handlers import Activity

if TYPE_CHECKING:
    from kopf._declare.decorators.building import Backoff
    from kopf._declare.registries import OperatorRegistry
    from kopf._errors import ErrorsMode


def startup(
        *,
        id: str | None = None,
        param: Any | None = None,
        errors: ErrorsMode | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        backoff: Backoff = None,
        registry: OperatorRegistry | None = None,
) -> Callable[[Fn], Fn]:
    """Call the function when the operator starts, before any other handler.

    The operator serves no objects until all startup handlers have succeeded. If one fails for good,
    the operator exits. This is the place to change the settings.

    Example::

        @kopf.on.startup()
        def configure(settings: kopf.OperatorSettings, **_):
            settings.posting.level = logging.WARNING

    Args:
        id: The name of the handler in logs. By default, the name of the function.
        param: A value for the function, as its kwarg ``param``. It tells apart several handlers of
            one function.
        errors: What an exception means that is neither a `kopf.TemporaryError` nor a
            `kopf.PermanentError`: ``kopf.ErrorsMode.TEMPORARY`` (retry; the default), ``PERMANENT``
            (fail for good) or ``IGNORED`` (log it and go on).
        timeout: Fail for good this many seconds after the first attempt.
        retries: Fail for good after this number of attempts.
        backoff: Seconds to wait after such an exception, or `kopf.exponential`. By default,
            ``settings.execution.default_backoff``: 60 seconds.
        registry: Where to put the handler, if not into the default registry.
    """
    return add_activity(locals(), Activity.STARTUP)


def cleanup(
        *,
        id: str | None = None,
        param: Any | None = None,
        errors: ErrorsMode | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        backoff: Backoff = None,
        registry: OperatorRegistry | None = None,
) -> Callable[[Fn], Fn]:
    """Call the function when the operator stops, after all other handlers.

    Example::

        @kopf.on.cleanup()
        async def close_sessions(memo, **_):
            await memo.session.close()

    Args:
        id: The name of the handler in logs. By default, the name of the function.
        param: A value for the function, as its kwarg ``param``. It tells apart several handlers of
            one function.
        errors: What an exception means that is neither a `kopf.TemporaryError` nor a
            `kopf.PermanentError`: ``kopf.ErrorsMode.TEMPORARY`` (retry; the default), ``PERMANENT``
            (fail for good) or ``IGNORED`` (log it and go on).
        timeout: Fail for good this many seconds after the first attempt.
        retries: Fail for good after this number of attempts.
        backoff: Seconds to wait after such an exception, or `kopf.exponential`. By default,
            ``settings.execution.default_backoff``: 60 seconds.
        registry: Where to put the handler, if not into the default registry.
    """
    return add_activity(locals(), Activity.CLEANUP)


def login(
        *,
        id: str | None = None,
        param: Any | None = None,
        errors: ErrorsMode | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        backoff: Backoff = None,
        registry: OperatorRegistry | None = None,
) -> Callable[[Fn], Fn]:
    """Call the function for credentials: at the start, and when the API rejects them.

    It returns a `kopf.ConnectionInfo`, or None if it has none. Without login handlers, an operator
    logs in with the client libraries that are imported, a kubeconfig, or the service account.

    Example::

        @kopf.on.login(retries=3)
        def log_in(**kwargs):
            return kopf.login_with_kubeconfig(**kwargs)

    Args:
        id: The name of the handler in logs. By default, the name of the function.
        param: A value for the function, as its kwarg ``param``. It tells apart several handlers of
            one function.
        errors: What an exception means that is neither a `kopf.TemporaryError` nor a
            `kopf.PermanentError`: ``kopf.ErrorsMode.TEMPORARY`` (retry; the default), ``PERMANENT``
            (fail for good) or ``IGNORED`` (log it and go on).
        timeout: Fail for good this many seconds after the first attempt.
        retries: Fail for good after this number of attempts.
        backoff: Seconds to wait after such an exception, or `kopf.exponential`. By default,
            ``settings.execution.default_backoff``: 60 seconds.
        registry: Where to put the handler, if not into the default registry.
    """
    return add_activity(locals(), Activity.AUTHENTICATION)


def probe(
        *,
        id: str | None = None,
        param: Any | None = None,
        errors: ErrorsMode | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        backoff: Backoff = None,
        registry: OperatorRegistry | None = None,
) -> Callable[[Fn], Fn]:
    """Call the function for a value to show at the liveness endpoint, under the handler's id.

    Example::

        @kopf.on.probe(id='now')
        def get_time(**_):
            return datetime.datetime.now(datetime.timezone.utc).isoformat()

    Args:
        id: The key of the value. By default, the name of the function.
        param: A value for the function, as its kwarg ``param``. It tells apart several handlers of
            one function.
        errors: What an exception means that is neither a `kopf.TemporaryError` nor a
            `kopf.PermanentError`: ``kopf.ErrorsMode.TEMPORARY`` (retry; the default), ``PERMANENT``
            (fail for good) or ``IGNORED`` (log it and go on).
        timeout: Fail for good this many seconds after the first attempt.
        retries: Fail for good after this number of attempts.
        backoff: Seconds to wait after such an exception, or `kopf.exponential`. By default,
            ``settings.execution.default_backoff``: 60 seconds.
        registry: Where to put the handler, if not into the default registry.
    """
    return add_activity(locals(), Activity.PROBE)

"""Kubernetes events: `kopf.event()` and its family, and log messages posted as events.

This module builds events and hands them to the engine, which posts them in the background. All of
it works in any thread; failures never reach the handlers.
"""
from __future__ import annotations

import datetime
import logging
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kopf._call.context import front_var, settings_var
from kopf._objects import encoding
from kopf._objects.fields import walk
from kopf._objects.views import Body, build_object_reference

if TYPE_CHECKING:
    from kopf._declare.settings import OperatorSettings
    from kopf._objects.typedefs import ObjectReference

logger = logging.getLogger('kopf._core.engines.posting')

MAX_MESSAGE_LENGTH = 1024
CUT_MESSAGE_INFIX = '...'

_Objects = Body | Iterable[Body] | Any
_Backoffs = float | Iterable[float] | None


def event(
        objs: _Objects,
        *,
        type: str,
        reason: str,
        message: str = '',
        backoffs: _Backoffs = None,
) -> None:
    """Post a Kubernetes event about the objects, for ``kubectl describe`` and the like.

    The engine posts it in the background. Failures are logged and never reach the caller.

    Example::

        kopf.event(body, type='Normal', reason='Resized', message=f"The size is {spec['size']}.")

    Args:
        objs: The object that the event is about, or a collection of objects.
        type: The type of the event; Kubernetes knows ``'Normal'`` and ``'Warning'``.
        reason: A short machine-readable reason in CamelCase.
        message: A text for people; Kopf cuts the middle of long ones.
        backoffs: Seconds to wait between attempts to post. By default,
            ``settings.posting.default_backoffs``.
    """
    settings = settings_var.get()
    if settings.posting.enabled:
        _post_all(objs, type, reason, message, backoffs, settings)


def info(objs: _Objects, *, reason: str, message: str = '', backoffs: _Backoffs = None) -> None:
    """Post an event of the type `Normal` about the objects: see `kopf.event`.

    Kopf skips it if ``settings.posting.level`` is above ``logging.INFO``.

    Args:
        objs: The object that the event is about, or a collection of objects.
        reason: A short machine-readable reason in CamelCase.
        message: A text for people; Kopf cuts the middle of long ones.
        backoffs: Seconds to wait between attempts to post. By default,
            ``settings.posting.default_backoffs``.
    """
    settings = settings_var.get()
    if settings.posting.enabled and settings.posting.level <= logging.INFO:
        _post_all(objs, 'Normal', reason, message, backoffs, settings)


def warn(objs: _Objects, *, reason: str, message: str = '', backoffs: _Backoffs = None) -> None:
    """Post an event of the type `Warning` about the objects: see `kopf.event`.

    Kopf skips it if ``settings.posting.level`` is above ``logging.WARNING``.

    Args:
        objs: The object that the event is about, or a collection of objects.
        reason: A short machine-readable reason in CamelCase.
        message: A text for people; Kopf cuts the middle of long ones.
        backoffs: Seconds to wait between attempts to post. By default,
            ``settings.posting.default_backoffs``.
    """
    settings = settings_var.get()
    if settings.posting.enabled and settings.posting.level <= logging.WARNING:
        _post_all(objs, 'Warning', reason, message, backoffs, settings)


def exception(
        objs: _Objects,
        *,
        reason: str = '',
        message: str = '',
        exc: BaseException | None = None,
        backoffs: _Backoffs = None,
) -> None:
    """Post an event of the type `Error` about the objects and an exception: see `kopf.event`.

    Kopf skips it if ``settings.posting.level`` is above ``logging.ERROR``.

    Args:
        objs: The object that the event is about, or a collection of objects.
        reason: A short machine-readable reason. By default, the class of the exception.
        message: A text for people, before that of the exception.
        exc: The exception. By default, the one that is being handled.
        backoffs: Seconds to wait between attempts to post. By default,
            ``settings.posting.default_backoffs``.
    """
    exc = exc if exc is not None else sys.exc_info()[1]
    settings = settings_var.get()
    if settings.posting.enabled and settings.posting.level <= logging.ERROR:
        reason = reason or type(exc).__name__
        message = ' '.join(encoding.as_text(part) for part in (message, exc) if part)
        _post_all(objs, 'Error', reason, message, backoffs, settings)


class K8sPoster(logging.Handler):
    """Posts the log messages about objects as events, if the settings say so."""

    def filter(self, record: logging.LogRecord) -> Any:
        settings: OperatorSettings | None = getattr(record, 'settings', None)
        return (
            settings is not None and settings.posting.enabled and settings.posting.loggers and
            record.levelno >= settings.posting.level and
            getattr(record, 'k8s_ref', None) is not None and
            not getattr(record, 'k8s_skip', False) and
            super().filter(record)
        )

    def emit(self, record: logging.LogRecord) -> None:
        try:
            settings: OperatorSettings = record.settings  # type: ignore[attr-defined]
            reference: ObjectReference = record.k8s_ref  # type: ignore[attr-defined]
            _post(reference, _get_type(record.levelno), 'Logging', self.format(record),
                  settings.posting.logging_backoffs, settings)
        except Exception:
            self.handleError(record)


def install_poster() -> None:
    """Post log messages about objects as events, in all operators of the process."""
    objects_logger = logging.getLogger('kopf.objects')
    if not any(isinstance(handler, K8sPoster) for handler in objects_logger.handlers):
        objects_logger.addHandler(K8sPoster())


def build_event(
        reference: Mapping[str, Any],
        type: str,
        reason: str,
        message: str,
        settings: OperatorSettings,
        default_namespace: str | None,
        now: datetime.datetime,
) -> dict[str, Any]:
    """The body of an event. Cluster-scoped objects have theirs in the default namespace."""
    namespace = reference.get('namespace') or default_namespace or 'default'
    moment = now.isoformat()
    return {
        'metadata': {
            'namespace': namespace,
            'generateName': settings.posting.event_name_prefix,
        },
        'action': 'Action?',
        'type': type,
        'reason': reason,
        'message': cut_message(message),
        'reportingComponent': settings.posting.reporting_component,
        'reportingInstance': settings.posting.reporting_instance,
        'source': {'component': settings.posting.reporting_component},
        'involvedObject': {**reference, 'namespace': namespace},
        'firstTimestamp': moment,
        'lastTimestamp': moment,
        'eventTime': moment,
    }


def cut_message(message: str) -> str:
    """Kubernetes rejects long messages: keep the beginning and the end, which say most."""
    if len(message) <= MAX_MESSAGE_LENGTH:
        return message
    half = MAX_MESSAGE_LENGTH // 2
    before = len(CUT_MESSAGE_INFIX) // 2
    after = len(CUT_MESSAGE_INFIX) - before
    return f'{message[:half - before]}{CUT_MESSAGE_INFIX}{message[-half + after:]}'


def _post_all(
        objs: _Objects,
        type: str,
        reason: str,
        message: str,
        backoffs: _Backoffs,
        settings: OperatorSettings,
) -> None:
    backoffs = backoffs if backoffs is not None else settings.posting.default_backoffs
    for obj in walk(objs):
        _post(build_object_reference(_as_mapping(obj)), type, reason, message, backoffs, settings)


def _post(
        reference: Mapping[str, Any],
        type: str,
        reason: str,
        message: str,
        backoffs: float | Iterable[float],
        settings: OperatorSettings,
) -> None:
    # Events about events would never end.
    if reference.get('apiVersion') == 'v1' and reference.get('kind') == 'Event':
        return
    front = front_var.get()
    now = datetime.datetime.now(datetime.timezone.utc)
    body = build_event(reference, encoding.as_text(type), encoding.as_text(reason),
                       encoding.as_text(message), settings, front.default_namespace, now)
    try:
        front.post_event(encoding.encode(body), backoffs)
    except Exception as error:
        # Not with the object's logger: Kopf would post the message as an event.
        name = encoding.as_text(reference.get('name'))
        logger.error(f"The event about {encoding.as_text(reference.get('kind'))} {name} "
                     f"cannot be posted and is skipped: {encoding.describe(error)}")


def _as_mapping(obj: Any) -> Any:
    """Convert models of client libraries to what they look like in JSON."""
    if isinstance(obj, Mapping):
        return obj
    metadata = getattr(obj, 'metadata', None)
    return {
        'apiVersion': getattr(obj, 'api_version', None),
        'kind': getattr(obj, 'kind', None),
        'metadata': {name: getattr(metadata, name, None) for name in ('name', 'uid', 'namespace')},
    }


def _get_type(level: int) -> str:
    return ('Debug' if level <= logging.DEBUG else
            'Normal' if level <= logging.INFO else
            'Warning' if level <= logging.WARNING else
            'Error' if level <= logging.ERROR else
            'Fatal' if level <= logging.FATAL else
            logging.getLevelName(level).capitalize())

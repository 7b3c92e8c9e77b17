"""Logging: formats, prefixes with the names of objects, and loggers of objects.

Records about an object carry a reference to it (`k8s_ref`), which the formatters turn into
a prefix or a JSON field, and which `posting` turns into a Kubernetes event.
"""
from __future__ import annotations

import copy
import enum
import json
import logging
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf._declare.settings import OperatorSettings
    from kopf._objects.views import Body

logger = logging.getLogger('kopf.objects')

DEFAULT_JSON_REFKEY = 'object'


class LogFormat(enum.Enum):
    """How log lines look."""

    PLAIN = '%(message)s'
    FULL = '[%(asctime)s] %(name)-20.20s [%(levelname)-8.8s] %(message)s'
    JSON = '-json-'


class ObjectLogger(logging.LoggerAdapter):
    """The logger of one object: `logger` in handlers."""

    def __init__(self, *, body: Body, settings: OperatorSettings) -> None:
        metadata = body.get('metadata') or {}
        super().__init__(logger, {
            'settings': settings,
            'k8s_skip': False,
            'k8s_ref': {
                'apiVersion': body.get('apiVersion'),
                'kind': body.get('kind'),
                'name': metadata.get('name'),
                'uid': metadata.get('uid'),
                'namespace': metadata.get('namespace'),
            },
        })

    def process(
            self, msg: Any, kwargs: MutableMapping[str, Any],
    ) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs['extra'] = {**(self.extra or {}), **(kwargs.get('extra') or {})}
        return msg, kwargs


class LocalObjectLogger(ObjectLogger):
    """The logger of one object whose messages are never posted as events."""

    def process(
            self, msg: Any, kwargs: MutableMapping[str, Any],
    ) -> tuple[Any, MutableMapping[str, Any]]:
        msg, kwargs = super().process(msg, kwargs)
        kwargs['extra']['k8s_skip'] = True
        return msg, kwargs


class TerseObjectLogger(LocalObjectLogger):
    """The logger of routine work: its messages below warnings count one level lower."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802
        return super().isEnabledFor(level if level >= logging.WARNING else level - 10)


class ObjectFormatter(logging.Formatter):
    """The common class of all formatters here."""


class ObjectTextFormatter(ObjectFormatter):
    """Lines of text."""


# What every record has; anything else comes from `extra=` of the logging calls.
_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {
    'message', 'asctime', 'taskName', 'k8s_ref', 'k8s_skip', 'settings'}


class ObjectJsonFormatter(ObjectFormatter):
    """Lines of JSON."""

    def __init__(self, *args: Any, refkey: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._refkey = refkey or DEFAULT_JSON_REFKEY

    def format(self, record: logging.LogRecord) -> str:
        import datetime
        fields: dict[str, Any] = {'message': ''}
        if isinstance(record.msg, dict):
            fields.update(record.msg)
        else:
            fields['message'] = record.getMessage()
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            fields['exc_info'] = record.exc_text
        if record.stack_info:
            fields['stack_info'] = self.formatStack(record.stack_info)
        for name, value in vars(record).items():
            if name not in _STANDARD_ATTRIBUTES and not name.startswith('_'):
                fields[name] = value
        moment = datetime.datetime.fromtimestamp(record.created, tz=datetime.timezone.utc)
        fields['timestamp'] = moment.isoformat()
        if hasattr(record, 'k8s_ref'):
            fields[self._refkey] = record.k8s_ref  # type: ignore[attr-defined]
        fields.setdefault('severity', _get_severity(record.levelno))
        return json.dumps(fields, default=_jsonify)


class ObjectPrefixingMixin(ObjectFormatter):
    """Puts `[namespace/name]` in front of messages about an object."""

    def format(self, record: logging.LogRecord) -> str:
        reference: Mapping[str, Any] | None = getattr(record, 'k8s_ref', None)
        if reference is not None:
            namespace, name = reference.get('namespace'), reference.get('name') or ''
            record = copy.copy(record)
            record.msg = f'[{namespace}/{name}] {record.msg}' if namespace \
                else f'[{name}] {record.msg}'
        return super().format(record)


class ObjectPrefixingTextFormatter(ObjectPrefixingMixin, ObjectTextFormatter):
    """Lines of text with prefixes."""


class ObjectPrefixingJsonFormatter(ObjectPrefixingMixin, ObjectJsonFormatter):
    """Lines of JSON with prefixes in the messages."""


class ColoredFormatter(ObjectFormatter):
    """Lines for people at a terminal: the time, the object, the message; the level is a colour."""

    LEVELS = ((logging.ERROR, '31;1'), (logging.WARNING, '33'), (logging.INFO, '0'), (0, '2'))

    def __init__(self, *, colors: bool) -> None:
        super().__init__('%(message)s')
        self._colors = colors

    def format(self, record: logging.LogRecord) -> str:
        import time
        level = next(color for least, color in self.LEVELS if record.levelno >= least)
        moment = time.strftime('%H:%M:%S', time.localtime(record.created))
        reference: Mapping[str, Any] | None = getattr(record, 'k8s_ref', None)
        parts = [self._paint(f'{moment}.{int(record.msecs):03d}', '2')]
        if reference is not None:
            place = [reference.get('namespace'), reference.get('name')]
            parts.append(self._paint('/'.join(part for part in place if part), '36'))
        if record.levelno >= logging.WARNING and not self._colors:
            parts.append(record.levelname)
        parts.append(self._paint(super().format(record), level))
        return ' '.join(parts)

    def _paint(self, text: str, color: str) -> str:
        return f'\x1b[{color}m{text}\x1b[0m' if self._colors and color != '0' else text


class _KopfStreamHandler(logging.StreamHandler):
    """The handler of this module. The next `configure()` replaces it."""


def configure(
        debug: bool | None = None,
        verbose: bool | None = None,
        quiet: bool | None = None,
        log_format: LogFormat = LogFormat.FULL,
        log_prefix: bool | None = False,
        log_refkey: str | None = None,
) -> None:
    """Set up the logging of the whole process, as the command line does.

    Args:
        debug: Whether to log everything, including messages of the event loop.
        verbose: Whether to log debug messages.
        quiet: Whether to log warnings and errors only.
        log_format: A `kopf.LogFormat`, or a template of `logging`.
        log_prefix: Whether messages start with the namespace and the name of their object. None
            means yes in text, no in JSON.
        log_refkey: The key of the reference to the object in JSON.
    """
    _install(_KopfStreamHandler(), make_formatter(log_format, log_prefix, log_refkey),
             debug=debug, verbose=verbose, quiet=quiet)


def configure_for_terminal(*, debug: bool, verbose: bool, quiet: bool) -> None:
    """Set up the logging for people, with colours if the terminal has any."""
    import os
    handler = _KopfStreamHandler()
    colors = handler.stream.isatty() and not os.environ.get('NO_COLOR')
    _install(handler, ColoredFormatter(colors=colors or bool(os.environ.get('FORCE_COLOR'))),
             debug=debug, verbose=verbose, quiet=quiet)


def _install(
        handler: logging.Handler,
        formatter: logging.Formatter,
        *,
        debug: bool | None,
        verbose: bool | None,
        quiet: bool | None,
) -> None:
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [other for other in root.handlers
                        if not isinstance(other, _KopfStreamHandler)]
    root.addHandler(handler)
    root.setLevel('DEBUG' if debug or verbose else 'WARNING' if quiet else 'INFO')

    # The event loop logs a lot, which only helps to debug Kopf itself.
    asyncio_logger = logging.getLogger('asyncio')
    asyncio_logger.propagate = bool(debug)
    if not debug:
        asyncio_logger.handlers[:] = [logging.NullHandler()]


def make_formatter(
        log_format: LogFormat | str = LogFormat.FULL,
        log_prefix: bool | None = False,
        log_refkey: str | None = None,
) -> ObjectFormatter:
    """The formatter of a format; `None` for the prefix is yes for text and no for JSON."""
    if log_format is LogFormat.JSON:
        return (ObjectPrefixingJsonFormatter(refkey=log_refkey) if log_prefix else
                ObjectJsonFormatter(refkey=log_refkey))
    if isinstance(log_format, (LogFormat, str)):
        template = log_format.value if isinstance(log_format, LogFormat) else log_format
        return (ObjectPrefixingTextFormatter(template) if log_prefix or log_prefix is None else
                ObjectTextFormatter(template))
    raise ValueError(f"Unsupported log format: {log_format!r}")


# The loggers that the engine writes to. Others inherit the levels of their parents.
_ENGINE_LOGGERS = (
    'kopf', 'kopf.engine', 'kopf.objects', 'kopf.activities', 'kopf.activities.startup',
    'kopf.activities.cleanup', 'kopf.activities.authentication', 'kopf.activities.probe',
    'kopf._cogs', 'kopf._cogs.clients', 'kopf._core', 'kopf._core.reactor', 'kopf._core.engines',
)


def get_levels() -> dict[str, int]:
    """The lowest levels that anybody sees, so that the engine can skip messages below them."""
    disabled = logging.root.manager.disable
    return {name: max(logging.getLogger(name).getEffectiveLevel(), disabled + 1)
            for name in _ENGINE_LOGGERS}


class LevelWatch:
    """Notices when the levels may have changed, at the cost of a few lookups."""

    def __init__(self) -> None:
        # The loggers, and all those that they inherit levels from. Loggers are never deleted.
        loggers: dict[str, logging.Logger] = {}
        for name in _ENGINE_LOGGERS:
            logger: logging.Logger | None = logging.getLogger(name)
            while logger is not None:
                loggers[logger.name] = logger
                logger = logger.parent
        self._loggers = list(loggers.values())
        self._manager = logging.root.manager
        self._seen: list[int] = []

    def has_changed(self) -> bool:
        """Whether any level differs from that of the last look. At the first look, it does."""
        now = [logger.level for logger in self._loggers]
        now.append(self._manager.disable)
        if now == self._seen:
            return False
        self._seen = now
        return True


def emit(
        name: str,
        level: int,
        message: str,
        *,
        reference: Mapping[str, Any] | None,
        local: bool,
        error: BaseException | None,
        settings: OperatorSettings,
) -> None:
    """Log a message of the engine."""
    target = logging.getLogger(name)
    if reference is not None and 'namespace' not in reference:
        # The loggers of handlers also show a null namespace for cluster-scoped objects.
        reference = {**reference, 'namespace': None}
    extra = {'settings': settings, 'k8s_skip': local, 'k8s_ref': reference} \
        if reference is not None else None
    target.log(level, message, extra=extra, exc_info=error)


def _get_severity(level: int) -> str:
    return ('debug' if level <= logging.DEBUG else
            'info' if level <= logging.INFO else
            'warn' if level <= logging.WARNING else
            'error' if level <= logging.ERROR else 'fatal')


def _jsonify(value: Any) -> Any:
    """Show what JSON does not know somehow, rather than lose the message."""
    if hasattr(value, 'isoformat'):
        return value.isoformat()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, BaseException):
        return f'{type(value).__name__}: {value}'
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, (bytes, bytearray)):
        import base64
        return base64.b64encode(value).decode('ascii')
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)

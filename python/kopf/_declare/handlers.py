"""Handlers: a user's function together with its declaration.

Decorators make them, registries keep them, `describe_handlers` describes them to the engine.
There is one class per group of decorators, with the fields that these decorators set.
"""
from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kopf._objects.enums import StringEnum

if TYPE_CHECKING:
    from collections.abc import Callable

    from kopf._declare.backoff import Exponential
    from kopf._declare.visible_kwargs import Callee
    from kopf._errors import ErrorsMode
    from kopf._objects.fields import FieldPath
    from kopf._objects.resources import Selector


class Activity(StringEnum):
    """When in the life of an operator Kopf calls an activity handler."""

    STARTUP = 'startup'
    CLEANUP = 'cleanup'
    AUTHENTICATION = 'authentication'
    PROBE = 'probe'


class Reason(StringEnum):
    """What has happened to an object: `reason` in handlers; equal to its string."""

    CREATE = 'create'
    UPDATE = 'update'
    DELETE = 'delete'
    RESUME = 'resume'
    NOOP = 'noop'
    FREE = 'free'
    GONE = 'gone'


class WebhookType(StringEnum):
    """What an admission webhook may do with an object."""

    VALIDATING = 'validating'
    MUTATING = 'mutating'
    CONVERTING = 'converting'


class Handler:
    """What all handlers have in common."""

    kind: ClassVar[str] = ''
    title: ClassVar[str] = 'Handler'

    def __init__(
            self,
            *,
            id: str,
            fn: Callable[..., Any],
            param: Any = None,
            errors: ErrorsMode | None = None,
            timeout: float | None = None,
            retries: int | None = None,
            backoff: float | Exponential | None = None,
    ) -> None:
        self.id = id
        self.fn = fn
        self.param = param
        self.errors = errors
        self.timeout = timeout
        self.retries = retries
        self.backoff = backoff
        self._callee: Callee | None = None

    @property
    def callee(self) -> Callee:
        """What Kopf knows about the current function."""
        callee = self._callee
        if callee is None or not callee.is_still(self.fn):
            from kopf._declare.visible_kwargs import Callee  # not before the operator runs
            callee = self._callee = Callee.of(self.fn)
        return callee

    @functools.cached_property
    def task_name(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f'{self.title} {self.id!r}'

    def __repr__(self) -> str:
        return f'<{type(self).__name__} {self.id!r}: {self.fn!r}>'


class ActivityHandler(Handler):
    """`on.startup`, `on.cleanup`, `on.login`, `on.probe`."""

    kind = 'activity'
    title = 'Activity'

    def __init__(
            self,
            *,
            activity: Activity | None,
            _fallback: bool = False,
            **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.activity = activity
        # Kopf uses fallback handlers only if the activity has no others.
        self._fallback = _fallback


class ResourceHandler(Handler):
    """Any handler of objects, with its selector and filters."""

    def __init__(
            self,
            *,
            selector: Selector | None = None,
            labels: Mapping[str, Any] | None = None,
            annotations: Mapping[str, Any] | None = None,
            when: Callable[..., bool] | None = None,
            field: FieldPath | None = None,
            value: Any = None,
            concurrency: int | None = None,
            **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.selector = selector
        self.labels = labels
        self.annotations = annotations
        self.when = when
        self.field = field
        self.value = value
        self.concurrency = concurrency


class WatchingHandler(ResourceHandler):
    """`on.event`."""

    kind = 'watching'


class IndexingHandler(ResourceHandler):
    """`kopf.index`."""

    kind = 'indexing'
    title = 'Indexer'


class ChangingHandler(ResourceHandler):
    """`on.create`, `on.update`, `on.delete`, `on.resume`, `on.field`, and sub-handlers."""

    kind = 'changing'

    def __init__(
            self,
            *,
            reason: Reason | None = None,
            initial: bool | None = None,
            deleted: bool | None = None,
            requires_finalizer: bool | None = None,
            field_needs_change: bool | None = None,
            old: Any = None,
            new: Any = None,
            **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.reason = reason
        self.initial = initial
        self.deleted = deleted
        self.requires_finalizer = requires_finalizer
        self.field_needs_change = field_needs_change
        self.old = old
        self.new = new


class SpawningHandler(ResourceHandler):
    """What runs in the background for as long as the object exists."""

    kind = 'spawning'

    def __init__(
            self,
            *,
            requires_finalizer: bool | None = None,
            initial_delay: float | Callable[..., float] | None = None,
            **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.requires_finalizer = requires_finalizer
        self.initial_delay = initial_delay


class DaemonHandler(SpawningHandler):
    """`kopf.daemon`."""

    kind = 'daemon'
    title = 'Daemon'

    def __init__(
            self,
            *,
            cancellation_backoff: float | None = None,
            cancellation_timeout: float | None = None,
            cancellation_polling: float | None = None,
            **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.cancellation_backoff = cancellation_backoff
        self.cancellation_timeout = cancellation_timeout
        self.cancellation_polling = cancellation_polling


class TimerHandler(SpawningHandler):
    """`kopf.timer`."""

    kind = 'timer'
    title = 'Timer'

    def __init__(
            self,
            *,
            sharp: bool | None = None,
            idle: float | None = None,
            interval: float | None = None,
            **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sharp = sharp
        self.idle = idle
        self.interval = interval


class WebhookHandler(ResourceHandler):
    """`on.validate`, `on.mutate`, `on.convert`."""

    kind = 'webhook'
    title = 'Webhook'

    def __init__(
            self,
            *,
            reason: WebhookType,
            operations: Collection[str] | None = None,
            subresource: str | None = None,
            persistent: bool | None = None,
            side_effects: bool | None = None,
            ignore_failures: bool | None = None,
            from_version: str | None = None,
            to_version: str | None = None,
            **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.reason = reason
        self.from_version = from_version
        self.to_version = to_version
        self.operations = operations
        self.subresource = subresource
        self.persistent = persistent
        self.side_effects = side_effects
        self.ignore_failures = ignore_failures

    @property
    def operation(self) -> str | None:
        import warnings
        warnings.warn("handler.operation is deprecated, use handler.operations.",
                      DeprecationWarning, stacklevel=2)
        if not self.operations:
            return None
        if len(self.operations) > 1:
            raise ValueError(f"The handler has {len(self.operations)} operations, not one.")
        return next(iter(self.operations))


class Condition:
    """`on.condition`: one more filter for all change handlers of a function."""

    def __init__(
            self,
            *,
            selector: Selector | None = None,
            labels: Mapping[str, Any] | None = None,
            annotations: Mapping[str, Any] | None = None,
            when: Callable[..., bool] | None = None,
            field: FieldPath | None = None,
            value: Any = None,
            old: Any = None,
            new: Any = None,
    ) -> None:
        self.selector = selector
        self.labels = labels
        self.annotations = annotations
        self.when = when
        self.field = field
        self.value = value
        self.old = old
        self.new = new

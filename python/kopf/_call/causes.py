"""Causes: why a function is called, and the kwargs that it gets for this reason.

There is one class per group of decorators. `CycleContext` holds what all calls of one cycle of one
object share: the body, the patch, the memo, the loggers.
"""
from __future__ import annotations

import functools
import json
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from kopf._call.stoppers import DaemonStopper
from kopf._declare.handlers import Activity, Handler, Reason
from kopf._objects.diffs import EMPTY, Diff
from kopf._objects.memos import ObjectMemo
from kopf._objects.patches import Patch
from kopf._objects.views import Body, LiveBody

if TYPE_CHECKING:
    from kopf._declare.settings import OperatorSettings
    from kopf._native import CallHandler, Cycle, LatestBody
    from kopf._objects.resources import Resource
    from kopf._run.front import Front


class Cause:
    """What all causes have in common."""

    #: The kwargs of functions, and where they come from.
    _sources: ClassVar[dict[str, Callable[[Any], Any]]] = {
        'logger': attrgetter('logger'),
        'memo': attrgetter('memo'),
    }

    def __init__(
            self,
            *,
            memo: Any = None,
            object_memo: ObjectMemo | None = None,
            logger: Any = None,
            make_logger: Callable[[], Any] | None = None,
            indices: Any = None,
    ) -> None:
        self._memo = memo
        self._object_memo = object_memo
        self.indices = indices if indices is not None else {}
        self._logger = logger
        self._make_logger = make_logger

    @property
    def memo(self) -> Any:
        return self._object_memo.get() if self._object_memo is not None else self._memo

    @property
    def logger(self) -> Any:
        if self._logger is None and self._make_logger is not None:
            self._logger = self._make_logger()
        return self._logger

    @property
    def kwargs(self) -> dict[str, Any]:
        """All kwargs of a call."""
        return self.get_kwargs()

    def get_kwargs(
            self, demand: frozenset[str] | None = None, *, is_async: bool = False,
    ) -> dict[str, Any]:
        """The kwargs, or only those in demand. An index hides a kwarg of the same name."""
        sources, indices = self._sources, self.indices
        if demand is None:
            return {name: get(self) for name, get in sources.items()} | dict(indices)
        kwargs = {name: sources[name](self) for name in demand if name in sources}
        if indices:
            kwargs |= {name: indices[name] for name in demand if name in indices}
        return kwargs

    def release(self) -> None:
        """The call is over: do not use the engine's data any more."""


class ActivityCause(Cause):
    """The operator itself starts, stops, logs in, or answers a probe."""

    _sources: ClassVar[dict[str, Callable[[Any], Any]]] = Cause._sources | {
        'activity': attrgetter('activity'),
        'settings': attrgetter('settings'),
    }

    def __init__(self, *, activity: Activity, settings: OperatorSettings, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activity = activity
        self.settings = settings


class ResourceCause(Cause):
    """Any cause that is about an object."""

    _sources: ClassVar[dict[str, Callable[[Any], Any]]] = Cause._sources | {
        'resource': attrgetter('resource'),
        'patch': attrgetter('patch'),
        'body': attrgetter('body'),
        'spec': attrgetter('body.spec'),
        'meta': attrgetter('body.metadata'),
        'status': attrgetter('body.status'),
        'uid': attrgetter('body.metadata.uid'),
        'name': attrgetter('body.metadata.name'),
        'namespace': attrgetter('body.metadata.namespace'),
        'labels': attrgetter('body.metadata.labels'),
        'annotations': attrgetter('body.metadata.annotations'),
    }

    def __init__(self, *, resource: Resource, patch: Patch, body: Body, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.resource = resource
        self.patch = patch
        self.body = body


class WatchingCause(ResourceCause):
    """An event of a listing or a watch stream."""

    _sources: ClassVar[dict[str, Callable[[Any], Any]]] = ResourceCause._sources | {
        'type': attrgetter('type'),
        'event': attrgetter('event'),
    }

    def __init__(self, *, type: str | None, event: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.type = type
        self.event = event


class IndexingCause(ResourceCause):
    """An object has to be indexed."""


class SpawningCause(ResourceCause):
    """Daemons and timers of an object have to start or stop."""

    def __init__(self, *, reset: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reset = reset


class ChangingCause(ResourceCause):
    """The essence of an object has changed. The changes are decoded at the first look."""

    _sources: ClassVar[dict[str, Callable[[Any], Any]]] = ResourceCause._sources | {
        'reason': attrgetter('reason'),
        'diff': attrgetter('diff'),
        'old': attrgetter('old'),
        'new': attrgetter('new'),
    }

    def __init__(
            self,
            *,
            reason: Reason,
            change: CallHandler | Cycle | None = None,
            **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.reason = reason
        self._change = change

    @functools.cached_property
    def diff(self) -> Diff:
        diff = self._change.diff if self._change is not None else None
        return Diff._from_json(diff) if diff is not None else EMPTY

    @functools.cached_property
    def old(self) -> Any:
        return _decode(self._change.old) if self._change is not None else None

    @functools.cached_property
    def new(self) -> Any:
        return _decode(self._change.new) if self._change is not None else None

    def release(self) -> None:
        self._change = None

    @property
    def deleted(self) -> bool:
        return self.body.metadata.deletion_timestamp is not None


class DaemonCause(ResourceCause):
    """A daemon or a timer runs for an object."""

    def __init__(self, *, stopper: DaemonStopper, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stopper = stopper

    def get_kwargs(
            self, demand: frozenset[str] | None = None, *, is_async: bool = False,
    ) -> dict[str, Any]:
        kwargs = super().get_kwargs(demand)
        if (demand is None or 'stopped' in demand) and 'stopped' not in self.indices:
            stopper = self.stopper
            kwargs['stopped'] = stopper.async_waiter if is_async else stopper.sync_waiter
        return kwargs


class WebhookCause(ResourceCause):
    """A client wants to change an object, and Kubernetes wants to know whether to admit it."""

    _sources: ClassVar[dict[str, Callable[[Any], Any]]] = ResourceCause._sources | {
        name: attrgetter(name) for name in (
            'headers', 'sslpeer', 'userinfo', 'warnings', 'operation', 'subresource',
            'old', 'new', 'diff', 'dryrun')
    }

    def __init__(
            self,
            *,
            dryrun: bool = False,
            headers: Any = None,
            sslpeer: Any = None,
            userinfo: Any = None,
            warnings: list[str] | None = None,
            operation: str | None = None,
            subresource: str | None = None,
            old: Body | None = None,
            new: Body | None = None,
            diff: Diff | None = None,
            **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dryrun = dryrun
        self.headers = headers
        self.sslpeer = sslpeer
        self.userinfo = userinfo
        self.warnings = warnings
        self.operation = operation
        self.subresource = subresource
        self.old = old
        self.new = new
        self.diff = diff


class ConversionCause(ResourceCause):
    """An object has to be converted from one version to another."""

    _sources: ClassVar[dict[str, Callable[[Any], Any]]] = ResourceCause._sources | {
        'from_version': attrgetter('from_version'),
        'to_version': attrgetter('to_version'),
    }

    def __init__(self, *, from_version: str, to_version: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.from_version = from_version
        self.to_version = to_version


class CycleContext:
    """What the calls of one cycle of one object share. Created when the front first needs it."""

    # It must not refer to the cycle, which refers to it: the garbage collector does not see
    # through the engine.
    __slots__ = ('_local_logger', '_logger', '_watching', 'body', 'front', 'memo', 'patch',
                 'patch_json', 'resource')

    def __init__(self, front: Front, cycle: Cycle, latest: LatestBody | None = None) -> None:
        self.front = front
        self.body = LiveBody(latest) if latest is not None else Body._from_json(cycle.body)
        self.memo = ObjectMemo(front.memos, cycle.memory, cycle.uid)
        self.patch = Patch(None, body=self.body)
        self.patch_json: str | None = None
        self.resource = front.get_resource(cycle.resource)
        self._logger: Any = None
        self._local_logger: Any = None
        self._watching: WatchingCause | None = None

    @classmethod
    def of(cls, front: Front, cycle: Cycle, latest: LatestBody | None = None) -> CycleContext:
        context = cycle.context
        if context is None:
            context = cycle.context = cls(front, cycle, latest)
        return context

    def get_logger(self) -> Any:
        if self._logger is None:
            from kopf._call.loggers import ObjectLogger
            self._logger = ObjectLogger(body=self.body, settings=self.front.settings)
        return self._logger

    def get_local_logger(self) -> Any:
        if self._local_logger is None:
            from kopf._call.loggers import LocalObjectLogger
            self._local_logger = LocalObjectLogger(body=self.body, settings=self.front.settings)
        return self._local_logger

    def get_terse_logger(self) -> Any:
        from kopf._call.loggers import TerseObjectLogger
        return TerseObjectLogger(body=self.body, settings=self.front.settings)

    def get_cause(
            self,
            handler: Handler,
            cycle: Cycle,
            job: CallHandler | None = None,
    ) -> ResourceCause:
        """The cause for a handler: of its call if there is a job, or of the whole cycle."""
        common = self._get_common()
        if handler.kind == 'watching':
            if self._watching is None:
                event = {'type': cycle.type, 'object': self.body._get()}
                # Not created lazily: this context refers to the cause.
                common['logger'] = self.get_local_logger()
                self._watching = WatchingCause(type=cycle.type, event=event, **common)
            return self._watching
        if handler.kind == 'indexing':
            common['patch'] = Patch(None, body=self.body)  # not applied
            return IndexingCause(make_logger=self.get_terse_logger, **common)
        if handler.kind in ('daemon', 'timer'):
            if job is None:
                return SpawningCause(make_logger=self.get_logger, **common)
            return DaemonCause(stopper=DaemonStopper(), make_logger=self.get_logger, **common)
        return ChangingCause(
            reason=Reason(cycle.reason or 'noop'),
            change=job if job is not None else cycle,
            make_logger=self.get_logger,
            **common,
        )

    def _get_common(self) -> dict[str, Any]:
        return {'object_memo': self.memo, 'indices': self.front.indices, 'resource': self.resource,
                'patch': self.patch, 'body': self.body}


def _decode(content: bytes | None) -> Any:
    return json.loads(content.decode()) if content is not None else None

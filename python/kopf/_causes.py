"""Causes: why a function is called, and the kwargs that it gets for this reason.

There is one class per kind of handlers. `CycleContext` holds what all the calls of one cycle
of one object share: the body, the patch, the memo, the loggers.
"""
from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from kopf._diffs import EMPTY, Diff
from kopf._handlers import Activity, Handler, Reason
from kopf._memo import recall_memo
from kopf._patch import Patch
from kopf._stoppers import DaemonStopper
from kopf._views import Body, LiveBody

if TYPE_CHECKING:
    from kopf._front import Front
    from kopf._native import Cycle, Job, Live
    from kopf._resources import Resource
    from kopf._settings import OperatorSettings


class Cause:
    """What all causes have in common."""

    def __init__(self, *, logger: Any, memo: Any, indices: Any = None) -> None:
        self.logger = logger
        self.memo = memo
        self.indices = indices if indices is not None else {}

    @property
    def kwargs(self) -> dict[str, Any]:
        """What a function is called with. An index hides a kwarg of the same name."""
        return self._get_kwargs() | dict(self.indices)

    def _get_kwargs(self) -> dict[str, Any]:
        return {'logger': self.logger, 'memo': self.memo}


class ActivityCause(Cause):
    """The operator itself starts, stops, logs in, or is probed."""

    def __init__(self, *, activity: Activity, settings: OperatorSettings, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activity = activity
        self.settings = settings

    def _get_kwargs(self) -> dict[str, Any]:
        return super()._get_kwargs() | {'activity': self.activity, 'settings': self.settings}


class ResourceCause(Cause):
    """Something is about an object."""

    def __init__(self, *, resource: Resource, patch: Patch, body: Body, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.resource = resource
        self.patch = patch
        self.body = body

    def _get_kwargs(self) -> dict[str, Any]:
        body = self.body
        meta = body.metadata
        return {
            'logger': self.logger,
            'memo': self.memo,
            'resource': self.resource,
            'patch': self.patch,
            'body': body,
            'spec': body.spec,
            'meta': meta,
            'status': body.status,
            'uid': meta.uid,
            'name': meta.name,
            'namespace': meta.namespace,
            'labels': meta.labels,
            'annotations': meta.annotations,
        }


class WatchingCause(ResourceCause):
    """An event has come from the cluster, whatever it means."""

    def __init__(self, *, type: str | None, event: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.type = type
        self.event = event

    def _get_kwargs(self) -> dict[str, Any]:
        return super()._get_kwargs() | {'type': self.type, 'event': self.event}


class IndexingCause(ResourceCause):
    """An object is to be indexed."""


class SpawningCause(ResourceCause):
    """Daemons and timers of an object are to be started or stopped."""

    def __init__(self, *, reset: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reset = reset


class ChangingCause(ResourceCause):
    """An object has changed in a way that matters."""

    def __init__(
            self,
            *,
            reason: Reason,
            diff: Diff = EMPTY,
            old: Any = None,
            new: Any = None,
            initial: bool = False,
            **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.reason = reason
        self.diff = diff
        self.old = old
        self.new = new
        self.initial = initial

    def _get_kwargs(self) -> dict[str, Any]:
        return super()._get_kwargs() | {
            'reason': self.reason, 'diff': self.diff, 'old': self.old, 'new': self.new,
        }

    @property
    def deleted(self) -> bool:
        return self.body.metadata.deletion_timestamp is not None


class DaemonCause(ResourceCause):
    """A daemon or a timer runs for an object."""

    def __init__(self, *, stopper: DaemonStopper, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stopper = stopper

    @property
    def sync_kwargs(self) -> dict[str, Any]:
        return self._get_kwargs() | {'stopped': self.stopper.sync_waiter} | dict(self.indices)

    @property
    def async_kwargs(self) -> dict[str, Any]:
        return self._get_kwargs() | {'stopped': self.stopper.async_waiter} | dict(self.indices)


class WebhookCause(ResourceCause):
    """An object is asked to be changed, and the change is to be admitted."""

    def __init__(self, *, dryrun: bool = False, **kwargs: Any) -> None:
        self.extras = {name: kwargs.pop(name, None) for name in (
            'headers', 'sslpeer', 'userinfo', 'warnings', 'operation', 'subresource',
            'old', 'new', 'diff')}
        super().__init__(**kwargs)
        self.dryrun = dryrun

    def _get_kwargs(self) -> dict[str, Any]:
        return super()._get_kwargs() | self.extras | {'dryrun': self.dryrun}


class ConversionCause(ResourceCause):
    """An object of one version is to be turned into one of another version."""

    def __init__(self, *, from_version: str, to_version: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.from_version = from_version
        self.to_version = to_version

    def _get_kwargs(self) -> dict[str, Any]:
        return super()._get_kwargs() | {
            'from_version': self.from_version, 'to_version': self.to_version,
        }


class CycleContext:
    """What the calls of one cycle of one object share. Made when the cycle first comes here."""

    # It must not refer to the cycle, which refers to it: the garbage collector does not see
    # through the engine.
    __slots__ = ('_local_logger', '_logger', '_watching', 'body', 'front', 'memo', 'patch',
                 'patch_json', 'resource')

    def __init__(self, front: Front, cycle: Cycle, live: Live | None = None) -> None:
        memo = recall_memo(cycle)
        if memo is None:
            memo = cycle.memory = copy.copy(front.memo)
        self.front = front
        self.body = LiveBody(live) if live is not None else Body._from_json(cycle.body)
        self.memo = memo
        self.patch = Patch(None, body=self.body)
        self.patch_json: str | None = None
        self.resource = front.get_resource(cycle.resource)
        self._logger: Any = None
        self._local_logger: Any = None
        self._watching: WatchingCause | None = None

    @classmethod
    def of(cls, front: Front, cycle: Cycle, live: Live | None = None) -> CycleContext:
        context = cycle.context
        if context is None:
            context = cycle.context = cls(front, cycle, live)
        return context

    @property
    def logger(self) -> Any:
        if self._logger is None:
            from kopf._logging import ObjectLogger
            self._logger = ObjectLogger(body=self.body, settings=self.front.settings)
        return self._logger

    @property
    def local_logger(self) -> Any:
        if self._local_logger is None:
            from kopf._logging import LocalObjectLogger
            self._local_logger = LocalObjectLogger(body=self.body, settings=self.front.settings)
        return self._local_logger

    @property
    def terse_logger(self) -> Any:
        from kopf._logging import TerseObjectLogger
        return TerseObjectLogger(body=self.body, settings=self.front.settings)

    def get_cause(self, handler: Handler, cycle: Cycle, job: Job | None = None) -> ResourceCause:
        """The cause for a handler: of its call if there is a job, or of the whole cycle."""
        if handler.kind == 'watching':
            if self._watching is None:
                event = {'type': cycle.type, 'object': self.body._get()}
                self._watching = WatchingCause(
                    type=cycle.type, event=event, **self._get_common(self.local_logger))
            return self._watching
        if handler.kind == 'indexing':
            common: dict[str, Any] = self._get_common(self.terse_logger)
            common['patch'] = Patch(None, body=self.body)  # not applied
            return IndexingCause(**common)
        if handler.kind in ('daemon', 'timer'):
            common = self._get_common(self.logger)
            if job is None:
                return SpawningCause(**common)
            return DaemonCause(stopper=DaemonStopper(), **common)
        source = job if job is not None else cycle
        diff = source.diff
        return ChangingCause(
            reason=Reason(cycle.reason or 'noop'),
            old=_decode(source.old),
            new=_decode(source.new),
            diff=Diff._from_json(diff) if diff is not None else EMPTY,
            **self._get_common(self.logger),
        )

    def _get_common(self, logger: Any) -> dict[str, Any]:
        return {'logger': logger, 'memo': self.memo, 'indices': self.front.indices,
                'resource': self.resource, 'patch': self.patch, 'body': self.body}


def _decode(content: bytes | None) -> Any:
    return json.loads(content.decode()) if content is not None else None

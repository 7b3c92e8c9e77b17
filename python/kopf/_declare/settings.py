"""`kopf.OperatorSettings`: everything that can be tuned in an operator.

Startup handlers change the settings; after that, `describe_settings` hands them to the engine.
What is used on this side (the executor, posting) is read whenever it is needed.
"""
from __future__ import annotations

import dataclasses
import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from kopf._objects.resources import Marker, Selector
from kopf._objects.storage.diffbase import AnnotationsDiffBaseStorage, DiffBaseStorage
from kopf._objects.storage.progress import ProgressStorage, SmartProgressStorage

if TYPE_CHECKING:
    import concurrent.futures

    from kopf._objects.typedefs import WebhookServerProtocol

_V = TypeVar('_V')


class SelectorMapping(MutableMapping[Any, _V], Generic[_V]):
    """Values for resources; the keys are what the decorators take as a resource.

    That is a name, a tuple of (group, name) or (group, version, name), a callable,
    `kopf.EVERYTHING`, or a selector.
    """

    def __init__(self, items: Mapping[Any, _V] | None = None) -> None:
        self._items: dict[Selector, _V] = {
            self._parse(key): value for key, value in (items or {}).items()
        }

    @staticmethod
    def _parse(key: Any) -> Selector:
        if isinstance(key, Selector):
            return key
        if isinstance(key, tuple):
            return Selector(*key)
        if isinstance(key, (str, Marker)) or callable(key):
            return Selector(key)  # type: ignore[arg-type]
        raise TypeError(f"Unsupported selector of resources: {key!r}")

    def __repr__(self) -> str:
        return f'{type(self).__name__}({self._items!r})'

    def __getitem__(self, key: Any) -> _V:
        return self._items[self._parse(key)]

    def __setitem__(self, key: Any, value: _V) -> None:
        self._items[self._parse(key)] = value

    def __delitem__(self, key: Any) -> None:
        del self._items[self._parse(key)]

    def __contains__(self, key: object) -> bool:
        return self._parse(key) in self._items

    def __iter__(self) -> Iterator[Selector]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def collect(self, resource: Any) -> list[_V]:
        """All the values that apply to a resource."""
        return [value for selector, value in self._items.items() if selector.check(resource)]


class _Group:
    """Compares and shows all fields, as dataclasses do by code of their own for each class.

    To make that code takes time at the start of every operator.
    """

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __repr__(self) -> str:
        fields = (f'{name}={value!r}' for name, value in vars(self).items())
        return f'{type(self).__qualname__}({", ".join(fields)})'


@dataclasses.dataclass(eq=False, repr=False)
class ProcessSettings(_Group):
    """The process of the operator."""

    #: The process is killed if it has not exited so many seconds after a signal to stop.
    ultimate_exiting_timeout: float | None = 10 * 60


@dataclasses.dataclass(eq=False, repr=False)
class PostingSettings(_Group):
    """Kubernetes events about the objects."""

    #: Whether any events are posted at all.
    enabled: bool = True
    #: Whether log messages about an object are posted too, not only those of `kopf.event()`.
    loggers: bool = False
    #: Messages below this level are not posted.
    level: int = logging.INFO
    #: Seconds between the attempts to post an explicit event, as many as there are numbers.
    default_backoffs: float | Iterable[float] = (1, 1, 2, 3, 5, 8, 13, 21)
    #: The same for the events made of log messages.
    logging_backoffs: float | Iterable[float] = (1, 1, 2, 3, 5)
    #: How many objects have their events posted at the same time.
    worker_limit: int | None = None
    #: For operators of kopf 1.45: there is no queue per object here that would have to be kept.
    idle_timeout: float = 1.0
    #: `reportingComponent` and `source.component` of the events.
    reporting_component: str = 'kopf'
    #: `reportingInstance` of the events.
    reporting_instance: str = 'dev'
    #: `generateName` of the events.
    event_name_prefix: str = 'kopf-event-'


@dataclasses.dataclass(eq=False, repr=False)
class PeeringSettings(_Group):
    """Operators that watch out for each other."""

    #: The name of the peering object.
    name: str = 'default'
    #: Whether to keep silent about regular keep-alives.
    stealth: bool = False
    #: Operators pause when there is one of a higher or the same priority.
    priority: int = 0
    #: Seconds after which others take this operator for dead.
    lifetime: int = 60
    #: Whether the operator fails if there is no peering object.
    mandatory: bool = False
    #: Whether to ignore the peering even if there is a peering object.
    standalone: bool = False
    #: Whether the cluster-wide peering objects are used.
    clusterwide: bool = False

    @property
    def namespaced(self) -> bool:
        return not self.clusterwide

    @namespaced.setter
    def namespaced(self, value: bool) -> None:
        self.clusterwide = not value


@dataclasses.dataclass(eq=False, repr=False)
class WatchingSettings(_Group):
    """Listing and watching of objects."""

    #: How long the server should keep one watch request, in seconds.
    server_timeout: float | None = None
    #: How long one watch request may take as a whole.
    client_timeout: float | None = None
    #: How long the connection of a watch request may take.
    connect_timeout: float | None = None
    #: The pause between watch requests.
    reconnect_backoff: float = 0.1
    #: A stream that is silent for so long, bookmarks included, is taken for dead.
    inactivity_timeout: float = 70.0
    #: How many objects come in one chunk of a listing.
    chunk_size: int | None = None
    #: Whether the first listing comes as a stream.
    initial_streaming: bool = False
    #: Labels of the objects to be watched, per resource.
    label_selectors: SelectorMapping[str] = dataclasses.field(
        default_factory=SelectorMapping[str])
    #: Fields of the objects to be watched, per resource.
    field_selectors: SelectorMapping[str] = dataclasses.field(
        default_factory=SelectorMapping[str])
    #: Shards of the objects to be watched, per resource.
    shard_selectors: SelectorMapping[str] = dataclasses.field(
        default_factory=SelectorMapping[str])


@dataclasses.dataclass(eq=False, repr=False)
class QueueingSettings(_Group):
    """The queues of events per object."""

    #: How many objects are handled at the same time.
    worker_limit: int | None = None
    #: For operators of kopf 1.45: there is no queue per object here that would have to be kept.
    idle_timeout: float = 5.0
    #: How long the handling may go on after the operator was asked to stop.
    exit_timeout: float = 2.0
    #: How long an object is left alone after unexpected errors in a row.
    error_delays: Iterable[float] = (1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610)
    _batch_window: float = 0.1

    @property
    def batch_window(self) -> float:
        _warn_about_batching()
        return self._batch_window

    @batch_window.setter
    def batch_window(self, value: float) -> None:
        _warn_about_batching()
        self._batch_window = value


def _warn_about_batching() -> None:
    warnings.warn("Time-based event batching was removed. Please stop configuring it.",
                  DeprecationWarning, stacklevel=3)


@dataclasses.dataclass(eq=False, repr=False)
class ScanningSettings(_Group):
    """Observing which resources and namespaces come and go."""

    #: Whether to look at them once, at the start, and not to watch them.
    disabled: bool = False


@dataclasses.dataclass(eq=False, repr=False)
class AdmissionSettings(_Group):
    """Admission webhooks."""

    #: The server or tunnel that the requests come through.
    server: WebhookServerProtocol | None = None
    #: The name of the webhook configurations which the operator maintains.
    managed: str | None = None


@dataclasses.dataclass(eq=False, repr=False)
class ExecutionSettings(_Group):
    """Calling of handlers."""

    #: Seconds between the attempts of a handler that fails with an arbitrary error.
    default_backoff: float = 60
    #: Where synchronous handlers run. The default one is made when it is first needed.
    executor: concurrent.futures.Executor = dataclasses.field(default=cast(Any, None))
    _max_workers: int | None = None

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if name == 'executor' and value is None:
            import concurrent.futures
            workers = object.__getattribute__(self, '_max_workers')
            value = concurrent.futures.ThreadPoolExecutor(max_workers=workers)
            object.__setattr__(self, name, value)
        return value

    @property
    def max_workers(self) -> int | None:
        return self._max_workers

    @max_workers.setter
    def max_workers(self, value: int) -> None:
        if value < 1:
            raise ValueError("Can't set thread pool limit lower than 1.")
        if object.__getattribute__(self, 'executor') is not None:
            if not hasattr(self.executor, '_max_workers'):
                raise TypeError("Current executor does not support `max_workers`.")
            self.executor._max_workers = value  # type: ignore[attr-defined]
        self._max_workers = value


@dataclasses.dataclass(eq=False, repr=False)
class NetworkingSettings(_Group):
    """Requests to the API."""

    #: How long one request may take.
    request_timeout: float | None = 5 * 60
    #: How long the connection may take.
    connect_timeout: float | None = None
    #: Seconds between the attempts of a request that fails for reasons of the network or server.
    error_backoffs: float | Iterable[float] = (1, 1, 2, 3, 5, 8, 13, 21)
    #: Whether the pause that the server asks for is made even if the backoff is longer.
    #: It is never made shorter.
    enforce_retry_after: bool = False
    #: Whether the proxy settings of the environment are used.
    trust_env: bool = False


@dataclasses.dataclass(eq=False, repr=False)
class PersistenceSettings(_Group):
    """What is stored on the objects."""

    #: The finalizer that blocks the deletion of handled objects.
    finalizer: str = 'kopf.zalando.org/KopfFinalizerMarker'
    #: Where the state of unfinished handlers is kept.
    progress_storage: ProgressStorage = dataclasses.field(default_factory=SmartProgressStorage)
    #: Where the last handled essence is kept.
    diffbase_storage: DiffBaseStorage = dataclasses.field(
        default_factory=AnnotationsDiffBaseStorage)
    #: Whether all of that goes to the status, in one request with the results of handlers. It is
    #: done for the custom resources whose schemas keep ``status.kopf``; nothing changes for others.
    compact: bool = False
    #: For operators of kopf 1.45: here, the answer to a patch is the newest state, and nothing
    #: waits for it to come back in the watch stream.
    consistency_timeout: float = 5.0


@dataclasses.dataclass(eq=False, repr=False)
class BackgroundSettings(_Group):
    """Daemons and timers."""

    #: How often a daemon that does not stop is reminded of it.
    cancellation_polling: float = 60
    #: How long to wait at once for a daemon that is asked to stop.
    instant_exit_timeout: float | None = None
    #: How many turns of the event loop to wait at once for a daemon that is asked to stop.
    instant_exit_zero_time_cycles: int | None = 10


@dataclasses.dataclass(eq=False, repr=False)
class OperatorSettings(_Group):
    """All settings, by groups."""

    process: ProcessSettings = dataclasses.field(default_factory=ProcessSettings)
    posting: PostingSettings = dataclasses.field(default_factory=PostingSettings)
    peering: PeeringSettings = dataclasses.field(default_factory=PeeringSettings)
    watching: WatchingSettings = dataclasses.field(default_factory=WatchingSettings)
    queueing: QueueingSettings = dataclasses.field(default_factory=QueueingSettings)
    scanning: ScanningSettings = dataclasses.field(default_factory=ScanningSettings)
    admission: AdmissionSettings = dataclasses.field(default_factory=AdmissionSettings)
    execution: ExecutionSettings = dataclasses.field(default_factory=ExecutionSettings)
    background: BackgroundSettings = dataclasses.field(default_factory=BackgroundSettings)
    networking: NetworkingSettings = dataclasses.field(default_factory=NetworkingSettings)
    persistence: PersistenceSettings = dataclasses.field(default_factory=PersistenceSettings)

    @property
    def batching(self) -> QueueingSettings:
        warnings.warn("Batching settings are now queueing settings. "
                      "Please rename `settings.batching` -> `settings.queueing`",
                      DeprecationWarning, stacklevel=2)
        return self.queueing

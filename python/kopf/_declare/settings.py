"""`kopf.OperatorSettings`: everything that users can tune in an operator.

Startup handlers change the settings; after that, `describe_settings` hands them to the engine. The
front reads what it uses itself (the executor, posting) at every use.
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
    """Compares and shows all fields, as dataclasses do.

    Dataclasses generate such code for each class, which takes time at the start of every operator.
    """

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __repr__(self) -> str:
        fields = (f'{name}={value!r}' for name, value in vars(self).items())
        return f'{type(self).__qualname__}({", ".join(fields)})'


@dataclasses.dataclass(eq=False, repr=False)
class ProcessSettings(_Group):
    """The process of the operator."""

    #: Kopf kills the process if it has not exited this many seconds after a signal to stop.
    ultimate_exiting_timeout: float | None = 10 * 60


@dataclasses.dataclass(eq=False, repr=False)
class PostingSettings(_Group):
    """Kubernetes events about the objects."""

    #: Whether to post any events at all.
    enabled: bool = True
    #: Whether to post log messages about an object, too, not only those of `kopf.event()`.
    loggers: bool = False
    #: Kopf does not post messages below this level.
    level: int = logging.INFO
    #: Seconds between the attempts to post an explicit event.
    default_backoffs: float | Iterable[float] = (1, 1, 2, 3, 5, 8, 13, 21)
    #: The same for events made from log messages.
    logging_backoffs: float | Iterable[float] = (1, 1, 2, 3, 5)
    #: For how many objects to post events at the same time.
    worker_limit: int | None = None
    #: Only for compatibility with kopf 1.45: here, no idle queues per object are kept.
    idle_timeout: float = 1.0
    #: `reportingComponent` and `source.component` of the events.
    reporting_component: str = 'kopf'
    #: `reportingInstance` of the events.
    reporting_instance: str = 'dev'
    #: `generateName` of the events.
    event_name_prefix: str = 'kopf-event-'


@dataclasses.dataclass(eq=False, repr=False)
class PeeringSettings(_Group):
    """Peering: operators that pause for each other."""

    #: The name of the peering object.
    name: str = 'default'
    #: Whether not to log regular keep-alives.
    stealth: bool = False
    #: An operator pauses while a peer has a higher or the same priority.
    priority: int = 0
    #: Seconds without a keep-alive after which peers consider this operator dead.
    lifetime: int = 60
    #: Whether the operator fails without a peering object.
    mandatory: bool = False
    #: Whether to ignore peers even if there is a peering object.
    standalone: bool = False
    #: Whether to use cluster-wide peering objects.
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
    #: How long a watch request may take to connect.
    connect_timeout: float | None = None
    #: The pause between watch requests.
    reconnect_backoff: float = 0.1
    #: Kopf restarts a stream that is silent for this long; bookmarks count as events.
    inactivity_timeout: float = 70.0
    #: How many objects one page of a listing has.
    chunk_size: int | None = None
    #: Whether to get the first listing as a stream.
    initial_streaming: bool = False
    #: Label selectors of the objects to watch, per resource.
    label_selectors: SelectorMapping[str] = dataclasses.field(
        default_factory=SelectorMapping[str])
    #: Field selectors of the objects to watch, per resource.
    field_selectors: SelectorMapping[str] = dataclasses.field(
        default_factory=SelectorMapping[str])
    #: Shard selectors of the objects to watch, per resource.
    shard_selectors: SelectorMapping[str] = dataclasses.field(
        default_factory=SelectorMapping[str])


@dataclasses.dataclass(eq=False, repr=False)
class QueueingSettings(_Group):
    """The queues of events per object."""

    #: How many objects to handle at the same time.
    worker_limit: int | None = None
    #: Only for compatibility with kopf 1.45: here, no idle queues per object are kept.
    idle_timeout: float = 5.0
    #: How long handlers may run on after the operator begins to stop.
    exit_timeout: float = 2.0
    #: How long to leave an object alone after unexpected errors in a row.
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
    """Discovery of resources and namespaces."""

    #: Whether to discover them only once, at the start.
    disabled: bool = False


@dataclasses.dataclass(eq=False, repr=False)
class AdmissionSettings(_Group):
    """Admission webhooks."""

    #: The server or tunnel that receives the requests.
    server: WebhookServerProtocol | None = None
    #: The name of the webhook configurations that the operator maintains.
    managed: str | None = None


@dataclasses.dataclass(eq=False, repr=False)
class ExecutionSettings(_Group):
    """Calls of handlers."""

    #: Seconds between the attempts of a handler that fails with an arbitrary error.
    default_backoff: float = 60
    #: Where synchronous handlers run. Kopf creates the default executor at its first use.
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
    #: How long a request may take to connect.
    connect_timeout: float | None = None
    #: Seconds between the attempts of a request that fails for reasons of the network or server.
    error_backoffs: float | Iterable[float] = (1, 1, 2, 3, 5, 8, 13, 21)
    #: Whether to follow the `Retry-After` of the server even if the backoff is longer.
    #: Kopf never waits less than the server asks for.
    enforce_retry_after: bool = False
    #: Whether to use the proxy settings of the environment.
    trust_env: bool = False


@dataclasses.dataclass(eq=False, repr=False)
class PersistenceSettings(_Group):
    """What Kopf stores on objects."""

    #: The finalizer that holds the deletion of handled objects back.
    finalizer: str = 'kopf.zalando.org/KopfFinalizerMarker'
    #: Where to keep the progress of unfinished handlers.
    progress_storage: ProgressStorage = dataclasses.field(default_factory=SmartProgressStorage)
    #: Where to keep the last handled essence.
    diffbase_storage: DiffBaseStorage = dataclasses.field(
        default_factory=AnnotationsDiffBaseStorage)
    #: Whether to put all of that into the status, in one request with the results of handlers. It
    #: affects only custom resources whose schemas preserve ``status.kopf``.
    compact: bool = False
    #: Only for compatibility with kopf 1.45: here, the response to a patch is the latest state,
    #: and nothing waits for its echo in the watch stream.
    consistency_timeout: float = 5.0


@dataclasses.dataclass(eq=False, repr=False)
class BackgroundSettings(_Group):
    """Daemons and timers."""

    #: How often to log that a daemon is still stopping.
    cancellation_polling: float = 60
    #: How long to wait for a daemon to exit instantly, before it counts as stopping.
    instant_exit_timeout: float | None = None
    #: The same in cycles of the event loop, each of which counts as a hundredth of a second.
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

"""The Python side of one operator: does the jobs that the engine enqueues.

The engine wakes up the event loop; `drain` takes all jobs at once, and dispatches them by their
types: to `_call.invoke`, which calls users' functions and answers when they return, or to a method
that answers at once. The front decides nothing about handlers: it converts and calls.
"""
from __future__ import annotations

import asyncio
import contextvars
import itertools
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kopf._call import loggers
from kopf._call.causes import ActivityCause, CycleContext
from kopf._call.invoke import Invocation, lower_title
from kopf._call.stoppers import DaemonStopper, DaemonStoppingReason
from kopf._call.threads import Pools
from kopf._connect import active_cluster
from kopf._declare import describe_settings
from kopf._declare.handlers import (
    Activity,
    ActivityHandler,
    Handler,
    IndexingHandler,
    WebhookHandler,
    WebhookType,
)
from kopf._errors import ActivityError, EngineError, OtherClusterError
from kopf._objects import encoding, indices, resources
from kopf._objects.memos import Memos
from kopf._run.callbacks import Callbacks
from kopf._run.configuration import Configuration
from kopf._run.storage import Storage
from kopf._run.sub_batches import SubBatch, SubBatches
from kopf._version import __version__
from kopf._webhooks import reviews
from kopf._webhooks.reviews import ReviewContext

if TYPE_CHECKING:
    from kopf import _native
    from kopf._connect.credentials import Vault
    from kopf._declare.registries import OperatorRegistry
    from kopf._declare.settings import OperatorSettings
    from kopf._objects.resources import NamespacePattern, Resource


logger = logging.getLogger('kopf')


class Front:
    """One running operator, as seen from this side."""

    def __init__(
            self,
            *,
            loop: asyncio.AbstractEventLoop,
            registry: OperatorRegistry,
            settings: OperatorSettings,
            lifecycle: Callable[..., Any],
            memo: Any,
            on_ready: Callable[[], None],
            vault: Vault | None = None,
    ) -> None:
        self.loop = loop
        self.registry = registry
        self.settings = settings
        self.lifecycle = lifecycle
        self.memo = memo
        self.memos = Memos(memo)
        self.vault = vault
        self.indices = indices.Indices(
            handler.id for handler in registry._indexing.get_all_handlers())
        self.default_namespace: str | None = None
        self.pools = Pools(loop, settings)
        self.tasks: set[asyncio.Task[None]] = set()  # of coroutine functions
        self._servers: set[asyncio.Task[None]] = set()  # of webhooks
        self._call_ended = asyncio.Event()
        self.finished: asyncio.Future[None] = loop.create_future()
        self.fatal_error: BaseException | None = None
        self.server: str | None = None  # the address of the cluster
        self.is_stopping = False
        # The only servers it may use if an embedded cluster is active, even after that ends.
        self._allowed_servers = active_cluster.get_servers()
        self.webhooks = reviews.Webhooks(self)
        self._on_ready = on_ready
        self._native: _native.Operator | None = None
        self.handlers: dict[int, Any] = {}  # by the indexes that the engine knows
        self._indexes = itertools.count()
        self._background: dict[int, Invocation] = {}  # by the numbers of their calls
        self.sub_batches = SubBatches(self.add_handler, self.remove_handler)
        self._resources: dict[int, Resource] = {}
        self._level_watch = loggers.LevelWatch()
        self._activity_error: BaseException | None = None
        self._configuration = Configuration(self)
        self._callbacks = Callbacks(self)
        self._storage = Storage(self)
        self._methods: dict[type[Any], Callable[[Any], None]] = {}  # by the types of jobs

    # The life of the front.

    def start(
            self,
            *,
            namespaces: Sequence[NamespacePattern],
            clusterwide: bool,
            liveness: str | None = None,
            identity: str | None = None,
            peering_lifetime: int | None = None,
    ) -> None:
        """Create the engine of this operator and start it."""
        from kopf import _native
        self._methods = self._make_methods()
        self._level_watch.has_changed()
        self._native = _native.Operator(encoding.encode({
            'activities': self._configuration.describe_logins_and_activities(),
            'namespaces': [resources.describe_namespace(pattern) for pattern in namespaces],
            'clusterwide': clusterwide,
            'liveness': liveness,
            'identity': identity,
            'peering_lifetime': peering_lifetime,
            'version': __version__,
            'levels': loggers.get_levels(),
        }))
        self.loop.add_reader(self._native.fileno(), self.drain)
        self._native.start()

    def _make_methods(self) -> dict[type[Any], Callable[[Any], None]]:
        from kopf import _native
        return {
            _native.CallHandler: self._on_call,
            _native.CallActivity: self._on_activity,
            _native.CallWebhook: self._on_webhook,
            _native.EmitLog: self._on_log,
            _native.EvaluateFilters: self._callbacks.on_filters,
            _native.EvaluateReviewFilters: self._callbacks.on_review_filters,
            _native.EvaluateSelector: self._callbacks.on_selector,
            _native.ChooseHandlers: self._callbacks.on_choose,
            _native.ComputeInitialDelay: self._callbacks.on_initial_delay,
            _native.ReadStorage: self._storage.on_read,
            _native.WriteStorage: self._storage.on_write,
            _native.TransformBody: self._storage.on_transform,
            _native.TransformReviewed: self._storage.on_transform_reviewed,
            _native.Configure: self._configuration.on_configure,
            _native.ListActivities: self._configuration.on_list_activities,
            _native.Ping: self._on_ping,
            _native.Ready: self._on_ready_job,
            _native.Finished: self._on_finished,
            _native.Unindex: self._on_unindex,
            _native.StopCall: self._on_stop,
            _native.SubHandlersDone: self._on_sub_handlers_done,
            _native.ServeWebhooks: self._on_serve_webhooks,
            _native.WebhookServer: self.webhooks.on_server,
            _native.ReviewAnswered: self.webhooks.on_answered,
        }

    def stop(self, reason: str) -> None:
        """Ask the engine to stop; the cleanup follows, and then `finished` is set."""
        self.is_stopping = True
        if self._native is not None:
            self._native.stop(reason)

    def close(self) -> None:
        """Release the engine, whatever its state is."""
        self.is_stopping = True
        if self._native is not None:
            self.loop.remove_reader(self._native.fileno())
            self._native.close()
            self._native = None
        for server in self._servers:
            server.cancel()

    async def finish_calls(self, patience: float) -> None:
        """Let the functions end by themselves, and cancel those that do not.

        The engine does not wait for daemons without a time-out once they have to stop.
        """
        deadline = self.loop.time() + patience
        try:
            while self.tasks or self._background:
                self._call_ended.clear()
                await asyncio.wait_for(self._call_ended.wait(), deadline - self.loop.time())
        except (asyncio.TimeoutError, TimeoutError):
            calls = sorted({task.get_name() for task in self.tasks} |
                           {str(call.handler) for call in list(self._background.values())})
            logger.warning(f"The operator cancels the functions that have not ended in "
                           f"{patience:g} seconds after the request to stop: {', '.join(calls)}.")
        finally:
            await self.cancel_calls(patience)

    async def cancel_calls(self, patience: float) -> None:
        """Cancel the functions, and wait until they have noticed it. Threads continue."""
        for task in self.tasks:
            task.cancel()
        left = self.tasks | self._servers
        if left:
            await asyncio.wait(left, timeout=patience)

    def drain(self) -> None:
        """Take all jobs from the queue, and start each of them."""
        if self._native is None:
            return
        methods = self._methods
        for job in self._native.take():
            try:
                methods[type(job)](job)
            except BaseException as error:
                fail = getattr(job, 'fail', None)  # notices need no answer
                if fail is not None:
                    fail(error)  # never raises: the other jobs must be done, too
                if not isinstance(error, Exception):
                    self.abort(error)
        self.mirror_levels()

    def abort(self, error: BaseException) -> None:
        """Stop the operator, then raise the error: a function wants the process to exit."""
        self.fatal_error = self.fatal_error or error
        self.loop.call_soon_threadsafe(self.stop, repr(error))

    def mirror_levels(self) -> None:
        """Let the engine know which records the loggers accept by now."""
        if self._level_watch.has_changed() and self._native is not None:
            self._native.set_levels(json.dumps(loggers.get_levels()))

    # The operator itself.

    def add_handler(self, handler: Any) -> int:
        """Give an index to the handler, by which the engine refers to it."""
        index = next(self._indexes)
        self.handlers[index] = handler
        return index

    def remove_handler(self, index: int) -> None:
        self.handlers.pop(index, None)

    def _on_activity(self, job: _native.CallActivity) -> None:
        handler = self.handlers[job.handler]
        assert isinstance(handler, ActivityHandler)
        activity = Activity(job.activity)
        cause = ActivityCause(
            logger=logging.getLogger(f'kopf.activities.{activity}'), memo=self.memo,
            indices=self.indices, activity=activity, settings=self.settings)
        self._invoke(Invocation(self, job, handler, cause, None), None)

    def _on_ping(self, job: _native.Ping) -> None:
        job.answer()

    def _on_ready_job(self, job: _native.Ready) -> None:
        self._on_ready()

    def _on_finished(self, job: _native.Finished) -> None:
        if self.finished.done():
            return
        if self.fatal_error is not None:
            self.finished.set_exception(self.fatal_error)
        elif job.message is None:
            self.finished.set_result(None)
        elif self._activity_error is not None:
            error = ActivityError(job.message)
            error.__cause__ = self._activity_error
            self.finished.set_exception(error)
        else:
            self.finished.set_exception(EngineError(job.message))

    def _on_log(self, job: _native.EmitLog) -> None:
        loggers.emit(
            job.logger, job.level, job.message,
            reference=json.loads(job.reference) if job.reference is not None else None,
            local=job.local, error=job.error, settings=self.settings)

    # Objects.

    def get_resource(self, index: int) -> Resource:
        resource = self._resources.get(index)
        if resource is None:
            assert self._native is not None
            data = json.loads(self._native.resource(index))
            resource = self._resources[index] = resources.Resource._from_json(data)
        return resource

    @property
    def native(self) -> _native.Operator | None:
        return self._native

    def _on_serve_webhooks(self, job: _native.ServeWebhooks) -> None:
        task = self.loop.create_task(self.webhooks.run(), name='kopf webhooks')
        self._servers.add(task)
        task.add_done_callback(self._servers.discard)

    def _on_call(self, job: _native.CallHandler) -> None:
        index, cycle, number = job.handler, job.cycle, job.call_number
        handler = self.handlers[index]
        context = CycleContext.of(self, cycle, job.latest_body)
        batch = self.sub_batches.get(index)
        cause = context.get_cause(handler, cycle, job)
        # The engine does not apply the patches of index functions.
        patched = context if handler.kind != 'indexing' else None
        invocation = Invocation(self, job, handler, cause, patched)
        if number is not None:
            self._background[number] = invocation
        self._invoke(invocation, batch.environment if batch is not None else None)

    def _on_webhook(self, job: _native.CallWebhook) -> None:
        context = ReviewContext.of(self, job.review)
        handler = self.handlers[job.handler]
        self._invoke(Invocation(self, job, handler, context.cause, context), None)

    def _invoke(self, invocation: Invocation, environment: contextvars.Context | None) -> None:
        try:
            invocation.start(environment)
        except Exception as error:
            invocation.fail(error)

    def _on_unindex(self, job: _native.Unindex) -> None:
        self.indices._forget(job.uid, job.ids)

    # Daemons and timers.

    def _on_stop(self, job: _native.StopCall) -> None:
        invocation = self._background.get(job.call_number)
        if invocation is not None:
            invocation.stop(DaemonStoppingReason(job.reasons))

    def forget_call(self, number: int | None, stopper: DaemonStopper) -> None:
        """The call of a daemon or a timer has ended. Called from any thread."""
        if number is not None:
            self._background.pop(number, None)
        try:
            self.loop.call_soon_threadsafe(stopper.set, DaemonStoppingReason.DONE)
            self.loop.call_soon_threadsafe(self._call_ended.set)
        except RuntimeError:
            pass  # the event loop is closed, and nobody waits in it

    def forget_task(self, task: asyncio.Task[None]) -> None:
        """The task of a coroutine function has ended. Called in the event loop."""
        self.tasks.discard(task)
        self._call_ended.set()

    # Sub-handlers.

    def _on_sub_handlers_done(self, job: _native.SubHandlersDone) -> None:
        batch: SubBatch = job.token
        self.sub_batches.remove(batch)
        batch.conclude(job.done, job.delay)

    # What invocations and others need.

    def encode_result(self, invocation: Invocation, result: Any) -> str | None:
        handler = invocation.handler
        if isinstance(handler, ActivityHandler):
            if handler.activity == Activity.AUTHENTICATION:
                from kopf._connect import credentials
                description = credentials.describe(handler, result)
                self._confine(handler, description)
                self.default_namespace = description.get('default_namespace')
                self.server = description.get('server')
                return encoding.encode(description)
            if handler.activity != Activity.PROBE:
                return None
        if isinstance(handler, IndexingHandler):
            self.indices._keep(handler.id, invocation.cycle.uid, result)
            return None
        if isinstance(handler, WebhookHandler) and handler.reason != WebhookType.CONVERTING:
            return None
        return encoding.encode_or_blame(
            result, lambda: f"The result of {lower_title(handler)}")

    def _confine(self, handler: Handler, description: dict[str, Any]) -> None:
        """Refuse the credentials of any other cluster while an embedded one is active.

        All credentials come along here: of the vault, of login handlers, of re-logins.
        """
        allowed = dict.fromkeys([*active_cluster.get_servers(), *self._allowed_servers])
        try:
            active_cluster.check(handler.id, description['server'], allowed)
        except OtherClusterError as error:
            self.abort(error)
            raise
        if allowed and description['kubeconfig']:
            # The engine reads the kubeconfig once more, and may find another one.
            description['expected_server'] = description['server']

    def notice_failure(self, invocation: Invocation, error: BaseException) -> None:
        if isinstance(invocation.handler, ActivityHandler):
            self._activity_error = error
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            self.abort(error)

    def post_event(self, event: str, backoffs: float | Iterable[float]) -> bool:
        if self._native is None:
            return False
        return self._native.post_event(event, describe_settings.flatten_delays(backoffs))

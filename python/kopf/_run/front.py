"""The front of one operator: carries out the jobs that the engine gives to this side.

The engine queues jobs and wakes the event loop; `drain` takes all of them at once. Each kind
of jobs has a method here, which answers at once or starts a call that answers later.
The front decides nothing about handlers: it evaluates callbacks, calls functions, and
converts what comes back.
"""
from __future__ import annotations

import asyncio
import contextvars
import itertools
import json
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kopf import lifecycles
from kopf._call import loggers
from kopf._call.causes import ActivityCause, CycleContext
from kopf._call.invoke import Invocation, lower_title
from kopf._call.stoppers import DaemonStopper, DaemonStoppingReason
from kopf._call.threads import Pools
from kopf._connect import active_cluster
from kopf._declare import (
    conditions,
    describe_handlers,
    describe_settings,
    filters,
    registries,
    signatures,
)
from kopf._declare.handlers import (
    Activity,
    ActivityHandler,
    ChangingHandler,
    Handler,
    IndexingHandler,
    ResourceHandler,
    SpawningHandler,
    WebhookHandler,
    WebhookType,
)
from kopf._errors import ActivityError, EngineError, OtherClusterError
from kopf._objects import encoding, indices, resources
from kopf._objects.memos import Memos
from kopf._version import __version__
from kopf._webhooks import reviews
from kopf._webhooks.reviews import ReviewContext

if TYPE_CHECKING:
    from kopf import _native
    from kopf._call.causes import Cause
    from kopf._connect.credentials import Vault
    from kopf._declare.registries import OperatorRegistry
    from kopf._declare.settings import OperatorSettings
    from kopf._native import Job
    from kopf._objects.resources import NamespacePattern, Resource, Selector


logger = logging.getLogger('kopf')


class Round:
    """One round of sub-handlers: what they are, and who waits for them."""

    def __init__(
            self,
            indexes: Sequence[int],
            lifecycle: Callable[..., Any] | None,
            cause: Cause,
            environment: contextvars.Context,
            conclude: Callable[[bool, float | None], None],
    ) -> None:
        self.indexes = indexes
        self.lifecycle = lifecycle
        self.cause = cause  # of the parent: filters of the children see the same
        self.environment = environment
        self.conclude = conclude


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
        self._handlers: dict[int, Any] = {}
        self._indexes = itertools.count()
        self._background: dict[int, Invocation] = {}  # by the numbers of their calls
        self._rounds: dict[int, Round] = {}
        self._rounds_lock = threading.Lock()
        self._resources: dict[int, Resource] = {}
        self._level_watch = loggers.LevelWatch()
        self._activity_error: BaseException | None = None
        self._handlers_of_kinds: dict[int, Callable[[Job], None]] = {}

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
        """Make the engine of this operator and start it."""
        from kopf import _native
        self._handlers_of_kinds = {
            _native.LOG: self._on_log,
            _native.ACTIVITY: self._on_activity,
            _native.CONFIGURE: self._on_configure,
            _native.ACTIVITIES: self._on_activities,
            _native.CALL: self._on_call,
            _native.FILTERS: self._on_filters,
            _native.CHOOSE: self._on_choose,
            _native.STORAGE_READ: self._on_storage_read,
            _native.STORAGE_WRITE: self._on_storage_write,
            _native.TRANSFORM: self._on_transform,
            _native.UNINDEX: self._on_unindex,
            _native.SUB_DONE: self._on_sub_done,
            _native.PULSE: self._on_pulse,
            _native.READY: self._on_ready_job,
            _native.FINISHED: self._on_finished,
            _native.ADMISSION: self._on_admission,
            _native.SERVED: self.webhooks.on_served,
            _native.REVIEWED: self.webhooks.on_reviewed,
            _native.STOP: self._on_stop,
            _native.DELAY: self._on_delay,
        }
        self._level_watch.has_changed()
        self._native = _native.Operator(encoding.encode({
            'activities': self._declare(self._get_activities()),
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
        """Let the functions come to their ends by themselves; those that do not, are cancelled.

        Daemons without a time-out are told to stop, and nobody in the engine waits for them.
        """
        deadline = self.loop.time() + patience
        try:
            while self.tasks or self._background:
                self._call_ended.clear()
                await asyncio.wait_for(self._call_ended.wait(), deadline - self.loop.time())
        except (asyncio.TimeoutError, TimeoutError):
            calls = sorted({task.get_name() for task in self.tasks} |
                           {str(call.handler) for call in list(self._background.values())})
            logger.warning(f"These have not ended in {patience:g} seconds after they were asked "
                           f"to stop, and are cancelled: {', '.join(calls)}.")
        finally:
            await self.cancel_calls(patience)

    async def cancel_calls(self, patience: float) -> None:
        """Cancel the functions, and wait until they have noticed it. Threads go on."""
        for task in self.tasks:
            task.cancel()
        left = self.tasks | self._servers
        if left:
            await asyncio.wait(left, timeout=patience)

    def drain(self) -> None:
        """Take all the jobs that have come, and start each of them."""
        if self._native is None:
            return
        for job in self._native.take():
            try:
                self._handlers_of_kinds[job.kind](job)
            except BaseException as error:
                job.fail(error)  # never raises: the other jobs must be done, too
                if not isinstance(error, Exception):
                    self.abort(error)
        self._mirror_levels()

    def abort(self, error: BaseException) -> None:
        """A user's function wants the whole process to exit: stop, then raise it."""
        self.fatal_error = self.fatal_error or error
        self.loop.call_soon_threadsafe(self.stop, repr(error))

    def _mirror_levels(self) -> None:
        if self._level_watch.has_changed() and self._native is not None:
            self._native.set_levels(json.dumps(loggers.get_levels()))

    # The operator itself.

    def _get_activities(self) -> list[Handler]:
        activities = self.registry._activities.get_all_handlers()
        own = [handler for handler in activities if handler.activity != Activity.AUTHENTICATION]
        logins: list[Handler] = []
        if self.vault is not None:
            logins.extend(registries.make_logins(self.vault))
        logins = logins or [*self.registry._get_logins()]
        if not logins:
            logger.error("There is no way to log in: neither a login handler, nor a kubeconfig "
                         "($KUBECONFIG or ~/.kube/config), nor a service account of a pod.")
        return [*own, *logins]

    def _declare(self, handlers: Iterable[Handler]) -> list[dict[str, Any]]:
        return [
            describe_handlers.declare(handler, self._add(handler),
                                  self.registry._get_conditions(handler))
            for handler in handlers
        ]

    def _add(self, handler: Any) -> int:
        index = next(self._indexes)
        self._handlers[index] = handler
        return index

    def _add_selector(self, selector: Selector) -> int:
        return self._add(ResourceHandler(id='', fn=filters.all_, selector=selector))

    def _on_configure(self, job: Job) -> None:
        registry = self.registry
        # Startup handlers may have declared some more.
        self.indices._ensure(handler.id for handler in registry._indexing.get_all_handlers())
        handlers: list[Handler] = [
            *registry._watching.get_all_handlers(),
            *registry._changing.get_all_handlers(),
            *registry._spawning.get_all_handlers(),
            *registry._indexing.get_all_handlers(),
            *registry._webhooks.get_all_handlers(),
        ]
        activities: list[Handler] = [*registry._activities.get_all_handlers()]
        reviews.verify_server(self.settings, bool(registry._webhooks.get_all_handlers()))
        signatures.warn_about_mismatches([*activities, *handlers], self.indices)
        for problem in describe_settings.find_without_effect(self.settings):
            logger.warning(problem)
        self._mirror_levels()
        job.answer(encoding.encode({
            'settings': describe_settings.describe_settings(
                self.settings,
                lifecycle=lifecycles.describe(self.lifecycle),
                register=self._add_selector,
            ),
            'handlers': self._declare(handlers),
        }))

    def _on_activities(self, job: Job) -> None:
        # Some may have been declared while the operator ran.
        activities = self.registry._activities.get_all_handlers()
        job.answer(encoding.encode(self._declare(activities)))

    def _on_activity(self, job: Job) -> None:
        handler = self._handlers[job.handler]
        assert isinstance(handler, ActivityHandler)
        activity = Activity(job.activity) if job.activity else handler.activity
        cause = ActivityCause(
            logger=logging.getLogger(f'kopf.activities.{activity}'), memo=self.memo,
            indices=self.indices, activity=activity or Activity.STARTUP, settings=self.settings)
        self._invoke(Invocation(self, job, handler, cause, None), None)

    def _on_pulse(self, job: Job) -> None:
        job.answer(None)

    def _on_ready_job(self, job: Job) -> None:
        self._on_ready()

    def _on_finished(self, job: Job) -> None:
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

    def _on_log(self, job: Job) -> None:
        loggers.emit(
            job.logger, job.level, job.message or '',
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

    def _on_admission(self, job: Job) -> None:
        """The webhooks are known, and may be served from now on."""
        task = self.loop.create_task(self.webhooks.run(), name='kopf webhooks')
        self._servers.add(task)
        task.add_done_callback(self._servers.discard)

    def _on_call(self, job: Job) -> None:
        handler = self._handlers[job.handler]
        if (review := job.review) is not None:
            reviewed = ReviewContext.of(self, review)
            self._invoke(Invocation(self, job, handler, reviewed.cause, reviewed), None)
            return
        context = CycleContext.of(self, job.cycle, job.live)
        round = self._rounds.get(job.handler)
        cause = context.get_cause(handler, job.cycle, job)
        # Whatever an index function puts into its patch, is not applied.
        patched = context if handler.kind != 'indexing' else None
        invocation = Invocation(self, job, handler, cause, patched)
        if job.call_number is not None:
            self._background[job.call_number] = invocation
        self._invoke(invocation, round.environment if round is not None else None)

    def _invoke(self, invocation: Invocation, environment: contextvars.Context | None) -> None:
        try:
            invocation.start(environment)
        except Exception as error:
            invocation.fail(error)

    def _on_unindex(self, job: Job) -> None:
        self.indices._forget(job.uid, job.ids)

    # Daemons and timers.

    def _on_stop(self, job: Job) -> None:
        number = job.call_number
        invocation = self._background.get(number) if number is not None else None
        if invocation is not None:
            invocation.stop(DaemonStoppingReason(job.reasons))

    def _on_delay(self, job: Job) -> None:
        handler = self._handlers[job.handler]
        assert isinstance(handler, SpawningHandler) and callable(handler.initial_delay)
        cause = CycleContext.of(self, job.cycle).get_cause(handler, job.cycle)
        job.answer(float(handler.initial_delay(**cause.kwargs)))

    def forget_call(self, number: int | None, stopper: DaemonStopper) -> None:
        """The call of a daemon or a timer is over. From any thread."""
        if number is not None:
            self._background.pop(number, None)
        try:
            self.loop.call_soon_threadsafe(stopper.set, DaemonStoppingReason.DONE)
            self.loop.call_soon_threadsafe(self._call_ended.set)
        except RuntimeError:
            pass  # the event loop is closed, and nobody waits in it

    def forget_task(self, task: asyncio.Task[None]) -> None:
        """The task of a coroutine function is over. In the event loop."""
        self.tasks.discard(task)
        self._call_ended.set()

    def _on_filters(self, job: Job) -> None:
        made: dict[Any, dict[str, Any]] = {}  # by the kinds of handlers or by their parents
        answers: list[bool] = []
        for index, slot, content in job.questions:
            handler = self._handlers[index]
            if slot == 'selector':
                resource = resources.Resource._from_json(json.loads(content or '{}'))
                answers.append(bool(handler.selector.fn(resource)))
                continue
            value = json.loads(content) if content is not None else None
            key = self._rounds.get(index) or handler.kind
            if key not in made:
                made[key] = self._get_cause(index, job).kwargs
            kwargs = made[key]
            if slot == 'when':
                declared = self.registry._get_conditions(handler)
                needs_change = bool(getattr(handler, 'field_needs_change', False))
                answers.append(
                    (handler.when is None or bool(handler.when(**kwargs))) and
                    all(conditions.check(condition, kwargs, needs_change=needs_change)
                        for condition in declared))
                continue
            group, dot, key = slot.partition('.')
            criteria = getattr(handler, group)
            criterion = criteria[key] if dot else criteria
            answers.append(filters.evaluate(criterion, value, content is not None, kwargs))
        job.answer(answers)

    def _get_cause(self, index: int, job: Job) -> Cause:
        """What filters and lifecycles see: the whole cycle, or the same as the parent."""
        round = self._rounds.get(index)
        if round is not None:
            return round.cause
        if (review := job.review) is not None:
            return ReviewContext.of(self, review).cause
        return CycleContext.of(self, job.cycle).get_cause(self._handlers[index], job.cycle)

    def _on_choose(self, job: Job) -> None:
        handlers = {index: self._handlers[index] for index in job.handlers}
        if not handlers:
            job.answer([])
            return
        first = next(iter(handlers))
        round = self._rounds.get(first)
        lifecycle = round.lifecycle if round is not None and round.lifecycle else self.lifecycle
        kwargs = self._get_cause(first, job).kwargs
        state = lifecycles.State(json.loads(job.state or '{}'))
        job.answer(_choose(lifecycle, handlers, state, kwargs))

    def _on_storage_read(self, job: Job) -> None:
        request = json.loads(job.operations or '{}')
        body = CycleContext.of(self, job.cycle).body
        progress = self.settings.persistence.progress_storage
        diffbase = self.settings.persistence.diffbase_storage
        answer: dict[str, Any] = {}
        if request.get('diffbase'):
            fields = [tuple(field) for field in request.get('extra_fields') or ()]
            old = diffbase.fetch(body=body)
            new = diffbase.build(body=body, extra_fields=fields)
            answer['old'] = progress.clear(essence=old) if old is not None else None
            answer['new'] = progress.clear(essence=new) if new is not None else None
        if request.get('progress'):
            records = ((key, progress.fetch(key=key, body=body)) for key in request['ids'])
            answer['records'] = {key: record for key, record in records if record is not None}
        job.answer(encoding.encode(answer))

    def _on_storage_write(self, job: Job) -> None:
        context = CycleContext.of(self, job.cycle)
        body, patch = context.body, context.patch
        progress = self.settings.persistence.progress_storage
        diffbase = self.settings.persistence.diffbase_storage
        operations = json.loads(job.operations or '[]')
        for item in operations:
            if item['op'] == 'store':
                progress.store(key=item['id'], record=item['record'], body=body, patch=patch)
            elif item['op'] == 'purge':
                progress.purge(key=item['id'], body=body, patch=patch)
            elif item['op'] == 'touch':
                progress.touch(body=body, patch=patch, value=item['value'])
            elif item['op'] == 'diffbase':
                diffbase.store(body=body, patch=patch, essence=item['essence'])
        if any(item['op'] in ('store', 'purge') for item in operations):
            progress.flush()
        context.patch_json = encoding.encode(patch) if len(patch) else None
        job.answer(context.patch_json)

    def _on_transform(self, job: Job) -> None:
        review = job.review
        context = (ReviewContext.of(self, review) if review is not None
                   else CycleContext.of(self, job.cycle))
        patch = context.patch
        body = json.loads(job.body)
        for fn in patch.fns:
            fn(body)
        job.answer(encoding.encode_or_blame(
            body, lambda: "The body after the transformations"))

    # Sub-handlers.

    def add_round(
            self,
            children: Sequence[ChangingHandler],
            lifecycle: Callable[..., Any] | None,
            cause: Cause,
            environment: contextvars.Context,
            conclude: Callable[[bool, float | None], None],
    ) -> Round:
        with self._rounds_lock:
            round = Round([self._add(child) for child in children],
                          lifecycle, cause, environment, conclude)
            self._rounds.update((index, round) for index in round.indexes)
        return round

    def remove_round(self, round: Round) -> None:
        with self._rounds_lock:
            for index in round.indexes:
                self._rounds.pop(index, None)
                self._handlers.pop(index, None)

    def _on_sub_done(self, job: Job) -> None:
        round = job.token
        self.remove_round(round)
        round.conclude(job.done, job.delay)

    # What invocations and others ask for.

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
            self.indices._keep(handler.id, invocation.job.cycle.uid, result)
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


def _choose(
        lifecycle: Callable[..., Any],
        handlers: dict[int, Handler],
        state: lifecycles.State,
        kwargs: dict[str, Any],
) -> list[int]:
    """Let the lifecycle pick, in its order; what it did not get is not counted."""
    indexes = {id(handler): index for index, handler in handlers.items()}
    chosen = lifecycle(list(handlers.values()), **{**kwargs, 'state': state})
    return [indexes[id(handler)] for handler in chosen if id(handler) in indexes]

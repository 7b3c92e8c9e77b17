"""One call of a user's function: from the engine's job to the answer.

Coroutine functions run as tasks of the operator's event loop. All others run in threads (see
`_call.threads`), and answer from there. Every call gets an answer, whatever the function does.
"""
from __future__ import annotations

import asyncio
import contextvars
import datetime
import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from kopf._call.causes import CycleContext, DaemonCause
from kopf._call.context import cause_var, handler_var, invocation_var
from kopf._call.raised_errors import classify, get_code, get_delay
from kopf._call.stoppers import DaemonStoppingReason
from kopf._declare import describe_handlers
from kopf._declare.handlers import ChangingHandler, Handler
from kopf._declare.registries import ChangingRegistry
from kopf._declare.visible_kwargs import is_watched
from kopf._errors import (
    AdmissionError,
    HandlerChildrenRetry,
    HandlerTimeoutError,
    PermanentError,
    TemporaryError,
)
from kopf._objects import encoding

if TYPE_CHECKING:
    from kopf._call.causes import Cause
    from kopf._native import (
        CallActivity,
        CallHandler,
        CallWebhook,
        Cycle,
        DescribedError,
    )

    Job = CallHandler | CallActivity | CallWebhook
    from kopf._run.front import Front
    from kopf._webhooks.reviews import ReviewContext


class Invocation:
    """One call of one handler, from its start to its answer."""

    def __init__(
            self,
            front: Front,
            job: Job,
            handler: Handler,
            cause: Cause,
            context: CycleContext | ReviewContext | None,
    ) -> None:
        self.front = front
        # Released with the answer.
        self._job: Job | None = job
        self.handler = handler
        self.cause = cause
        self.context = context
        self._children: ChangingRegistry | None = None
        self.executed = False  # whether the function has executed its sub-handlers itself
        self._task: asyncio.Task[None] | None = None
        self._expired = False
        self._cancelled = False  # a daemon that has to exit by force

    def start(self, environment: contextvars.Context | None) -> None:
        """Call the function, in the given environment if it is a child of another function."""
        callee = self.handler.callee
        is_async, demand = callee.is_async, None if is_watched() else callee.demand
        kwargs = self._get_own_kwargs(demand) | self.cause.get_kwargs(demand, is_async=is_async)
        if is_async:
            self._start_task(environment, self._call_async(kwargs))
        else:
            environment = environment.copy() if environment else contextvars.copy_context()
            pools = self.front.pools
            run = pools.run_daemon if self.handler.kind == 'daemon' else pools.run_handler
            run(lambda: environment.run(self._run_sync, kwargs))

    def _get_own_kwargs(self, demand: frozenset[str] | None) -> dict[str, Any]:
        job = self.job
        kwargs: dict[str, Any] = {}
        if demand is None or 'param' in demand:
            kwargs['param'] = self.handler.param
        if demand is None or 'retry' in demand:
            kwargs['retry'] = job.retry
        if demand is None or 'started' in demand:
            kwargs['started'] = datetime.datetime.fromtimestamp(job.started, datetime.timezone.utc)
        if demand is None or 'runtime' in demand:
            kwargs['runtime'] = datetime.timedelta(seconds=job.runtime)
        return kwargs

    def stop(self, reason: DaemonStoppingReason) -> None:
        """Tell the daemon or the timer to stop, by its flag or by force. In the event loop."""
        assert isinstance(self.cause, DaemonCause)
        self.cause.stopper.set(reason)
        if DaemonStoppingReason.DAEMON_CANCELLED in reason and not self._cancelled:
            self._cancelled = True
            self._cancel_task()

    def _cancel_task(self) -> None:
        if self._task is not None:
            # Not before its first step: it would end without an answer.
            self.front.loop.call_soon(self._task.cancel)

    @property
    def job(self) -> Job:
        assert self._job is not None, f"{self.handler} was answered already"
        return self._job

    @property
    def cycle(self) -> Cycle:
        """The cycle of a call for an object; activities and webhooks have none."""
        return cast('CallHandler', self.job).cycle

    # Coroutine functions.

    def _start_task(self, environment: contextvars.Context | None, coroutine: Any) -> None:
        create = self.front.loop.create_task
        running, name = self._run_async(coroutine), self.handler.task_name
        self._task = (create(running, name=name) if environment is None
                      else environment.run(create, running, name=name))
        self.front.tasks.add(self._task)
        if self._cancelled:
            self._cancel_task()

    async def _call_async(self, kwargs: dict[str, Any]) -> Any:
        # Wrappers of coroutine functions can be regular functions: they run in the task, too.
        return await self.handler.fn(**kwargs)

    async def _run_async(self, coroutine: Awaitable[Any]) -> None:
        self._enter()
        timeout = self.job.timeout
        timer = self.front.loop.call_later(timeout, self._expire) if timeout is not None else None
        try:
            result = await coroutine
            if self.has_children:
                from kopf._call import subhandlers
                await subhandlers.execute()
        except asyncio.CancelledError as error:
            if not self._expired:
                # Code that cancels all tasks of the event loop cancels the operator, too; but
                # the operator may get to know of it only after this task.
                self.front.loop.call_soon(self.fail, error)
                raise
            runtime = datetime.timedelta(seconds=self.job.runtime + (timeout or 0))
            self.fail(HandlerTimeoutError(f"{self.handler} has timed out after {runtime}."))
        except BaseException as error:
            self.fail(error)
        else:
            self.answer(result)
        finally:
            if self._task is not None:
                self.front.forget_task(self._task)
                self._task = None
            if timer is not None:
                timer.cancel()

    def _expire(self) -> None:
        self._expired = True
        if self._task is not None:
            self._task.cancel()

    # Regular functions, in threads.

    def _run_sync(self, kwargs: dict[str, Any]) -> None:
        self._enter()
        try:
            result = self.handler.fn(**kwargs)
            if result is not None and inspect.isawaitable(result):
                environment = contextvars.copy_context()
                self.front.loop.call_soon_threadsafe(self._start_task, environment, result)
                return
            if self.has_children:
                self.executed = True
                children = list(self.children.get_all_handlers())
                self._request_sub_batch(children, None, functools.partial(self._conclude, result))
                return
        except BaseException as error:
            self._cancel_or(self.fail, error)
        else:
            self._cancel_or(self.answer, result)

    def _cancel_or(self, conclude: Callable[[Any], None], outcome: Any) -> None:
        """A thread cannot be cancelled; but its outcome does not count any more."""
        if self._cancelled:
            self.fail(asyncio.CancelledError())
        else:
            conclude(outcome)

    def _conclude(self, result: Any, done: bool, delay: float | None) -> None:
        if done:
            self.answer(result)
        else:
            self.fail(HandlerChildrenRetry(delay=delay))

    # Sub-handlers.

    @property
    def children(self) -> ChangingRegistry:
        if self._children is None:
            self._children = ChangingRegistry()
        return self._children

    @property
    def has_children(self) -> bool:
        return not self.executed and self._children is not None and bool(self._children._handlers)

    async def run_sub_batch(
            self,
            children: Sequence[ChangingHandler],
            lifecycle: Callable[..., Any] | None,
    ) -> tuple[bool, float | None]:
        """Let the engine call the children once; return whether all of them are finished."""
        future: asyncio.Future[tuple[bool, float | None]] = self.front.loop.create_future()

        def conclude(done: bool, delay: float | None) -> None:
            if not future.done():
                future.set_result((done, delay))

        self._request_sub_batch(children, lifecycle, conclude)
        return await future

    def _request_sub_batch(
            self,
            children: Sequence[ChangingHandler],
            lifecycle: Callable[..., Any] | None,
            conclude: Callable[[bool, float | None], None],
    ) -> None:
        from kopf import lifecycles
        batch = self.front.sub_batches.add(children, lifecycle, self.cause, conclude)
        declarations = [
            describe_handlers.declare(child, index, self.front.registry._get_conditions(child))
            for index, child in zip(batch.indexes, children, strict=True)
        ]
        name = lifecycles.describe(lifecycle) if lifecycle is not None else None
        try:
            cast('CallHandler', self.job).execute(encoding.encode(declarations), name, batch)
        except BaseException:
            self.front.sub_batches.remove(batch)
            raise

    # Answers. Every call gets one: if the engine cannot read an outcome, it gets an error instead.

    def answer(self, result: Any) -> None:
        """The function has returned."""
        accepted = self._accepted_patch
        try:
            patch, transformations = self._get_patch()
            encoded = None if result is None else self.front.encode_result(self, result)
            warnings = self._get_warnings()
        except Exception as error:
            self.fail(error)
            return
        job = self._finish()
        try:
            job.answer(encoded, patch, transformations, *warnings)
        except Exception as error:
            self._accepted_patch = accepted
            self._fail(job, self._blame(error, result))

    def fail(self, error: BaseException) -> None:
        """The function has raised an error."""
        self.front.notice_failure(self, error)
        self._fail(self._finish(), error)

    def _fail(self, job: Job, error: BaseException) -> None:
        accepted = self._accepted_patch
        try:
            job.answer_error(*self._describe(error), *self._get_warnings())
        except Exception as unreadable:
            self._accepted_patch = accepted
            blamed = self._blame(unreadable)
            text = str(blamed)
            described = ('permanent', text, text, None, blamed, None)
            job.answer_error(described, *self._reset_patch())

    def _describe(self, error: BaseException) -> tuple[DescribedError, str | None, bool]:
        """The error for the engine, and the patch that goes with it."""
        try:
            patch, transformations = self._get_patch()
        except PermanentError as patch_error:
            patch, transformations = self._reset_patch()
            error = error if isinstance(error, PermanentError) else patch_error
        delay = None
        if isinstance(error, TemporaryError):
            try:
                delay = get_delay(error)
            except TypeError as delay_error:
                delay_error.__cause__ = error
                error = delay_error
        error_type, code = classify(error), None
        if error_type == 'cancelled' and not self._is_stopping(error):
            error_type = 'arbitrary'
        if isinstance(error, AdmissionError) and hasattr(self.context, 'warnings'):
            error_type, code = 'admission', get_code(error)
        text = encoding.as_text(error)
        described = (error_type, text, text or encoding.describe(error), delay, error, code)
        return described, patch, transformations

    def _is_stopping(self, error: BaseException) -> bool:
        """Whether the function was made to stop, or makes the operator stop."""
        return (self._cancelled or self.front.is_stopping
                or isinstance(error, (SystemExit, KeyboardInterrupt)))

    def _blame(self, error: Exception, result: Any = None) -> PermanentError:
        """It is JSON, but the engine cannot read it: huge numbers, too many levels."""
        title = lower_title(self.handler)
        patch = self.context.patch if self.context is not None else None
        blamed = (encoding.blame(patch, lambda: f"The patch of {title}") or
                  encoding.blame(result, lambda: f"The result of {title}") or
                  PermanentError(f"The outcome of {title} cannot be passed on: "
                                 f"{encoding.describe(error)}"))
        blamed.__cause__ = error
        return blamed

    def _get_warnings(self) -> tuple[()] | tuple[list[str]]:
        """What only the answers to reviews have."""
        warnings = getattr(self.context, 'warnings', None)
        if warnings is None:
            return ()
        return ([encoding.as_text(warning) for warning in warnings],)

    def _finish(self) -> Job:
        """Release the job: contexts of tasks may live longer than it should."""
        job, self._job = self.job, None
        if isinstance(self.cause, DaemonCause):
            self.front.forget_call(cast('CallHandler', job).call_number, self.cause.stopper)
        self.cause.release()
        return job

    def _get_patch(self) -> tuple[str | None, bool]:
        if self.context is None or not self.context.patch:
            return None, False
        patch = self.context.patch
        self._accepted_patch = encoding.encode_or_blame(
            patch, lambda: f"The patch of {lower_title(self.handler)}") if len(patch) else None
        return self._accepted_patch, bool(patch.fns)

    @property
    def _accepted_patch(self) -> str | None:
        """The patch as of the last handler of the cycle that has not spoiled it."""
        return self.context.patch_json if self.context is not None else None

    @_accepted_patch.setter
    def _accepted_patch(self, content: str | None) -> None:
        if self.context is not None:
            self.context.patch_json = content

    def _reset_patch(self) -> tuple[str | None, bool]:
        """Go back to what the patch was before this handler has spoiled it."""
        import json
        if self.context is None:
            return None, False
        patch, content = self.context.patch, self.context.patch_json
        dict.clear(patch)
        if content is not None:
            patch.update(json.loads(content))
        return content, bool(patch.fns)

    def _enter(self) -> None:
        invocation_var.set(self)
        handler_var.set(self.handler)
        cause_var.set(self.cause)


def lower_title(handler: Handler) -> str:
    """The name of a handler inside of a sentence."""
    text = str(handler)
    return text[:1].lower() + text[1:]

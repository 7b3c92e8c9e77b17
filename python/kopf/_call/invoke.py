"""One call of a user's function: from the job of the engine to the answer.

Coroutine functions run as tasks of the operator's event loop. All others run in threads (see
`_call.threads`), and answer from there. What the function raises is sorted into the few kinds
that the engine knows; this is the only place that does so.
"""
from __future__ import annotations

import asyncio
import contextvars
import datetime
import functools
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from kopf._call.causes import CycleContext, DaemonCause
from kopf._call.context import cause_var, handler_var, invocation_var
from kopf._call.stoppers import DaemonStoppingReason
from kopf._declare import describe_handlers
from kopf._declare.handlers import ChangingHandler, Handler
from kopf._declare.registries import ChangingRegistry
from kopf._declare.visible_kwargs import is_watched
from kopf._errors import (
    AdmissionError,
    HandlerChildrenRetry,
    HandlerRetriesError,
    HandlerTimeoutError,
    PermanentError,
    TemporaryError,
)
from kopf._objects import encoding

if TYPE_CHECKING:
    from kopf._call.causes import Cause
    from kopf._native import Job
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
        # Given up with the answer.
        self._job: Job | None = job
        self.handler = handler
        self.cause = cause
        self.context = context
        self._children: ChangingRegistry | None = None
        self.executed = False  # whether the children were executed explicitly
        self._task: asyncio.Task[None] | None = None
        self._expired = False
        self._cancelled = False  # a daemon that is to exit by force

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
                # Whoever cancels all tasks of the event loop has cancelled the operator, too;
                # but it may come to know of it only after this task.
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
                self._request_round(children, None, functools.partial(self._conclude, result))
                return
        except BaseException as error:
            self._cancel_or(self.fail, error)
        else:
            self._cancel_or(self.answer, result)

    def _cancel_or(self, conclude: Callable[[Any], None], outcome: Any) -> None:
        """A thread cannot be cancelled; but what it came to after that does not count."""
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

    async def run_round(
            self,
            children: Sequence[ChangingHandler],
            lifecycle: Callable[..., Any] | None,
    ) -> tuple[bool, float | None]:
        """Have the engine run the children once; tell whether all of them are finished."""
        future: asyncio.Future[tuple[bool, float | None]] = self.front.loop.create_future()

        def conclude(done: bool, delay: float | None) -> None:
            if not future.done():
                future.set_result((done, delay))

        self._request_round(children, lifecycle, conclude)
        return await future

    def _request_round(
            self,
            children: Sequence[ChangingHandler],
            lifecycle: Callable[..., Any] | None,
            conclude: Callable[[bool, float | None], None],
    ) -> None:
        from kopf import lifecycles
        environment = contextvars.copy_context()
        round = self.front.add_round(children, lifecycle, self.cause, environment, conclude)
        declarations = [
            describe_handlers.declare(child, index, self.front.registry._get_conditions(child))
            for index, child in zip(round.indexes, children, strict=True)
        ]
        name = lifecycles.describe(lifecycle) if lifecycle is not None else None
        try:
            self.job.execute(encoding.encode(declarations), name, round)
        except BaseException:
            self.front.remove_round(round)
            raise

    # Answers. Every call gets one: what cannot be said as it is, is said in other words.

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
            job.answer_call(encoded, patch, transformations, *warnings)
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
            job.fail_call(*self._describe(error), *self._get_warnings(error))
        except Exception as unreadable:
            self._accepted_patch = accepted
            blamed = self._blame(unreadable)
            text = str(blamed)
            job.fail_call('permanent', text, text, None, blamed, *self._reset_patch())

    def _describe(self, error: BaseException) -> tuple[Any, ...]:
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
        kind = get_error_kind(error)
        if kind == 'cancelled' and not self._is_stopping(error):
            kind = 'arbitrary'
        if isinstance(error, AdmissionError) and hasattr(self.context, 'warnings'):
            kind = 'admission'
        text = encoding.as_text(error)
        return (kind, text, text or encoding.describe(error), delay, error,
                patch, transformations)

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

    def _get_warnings(self, error: BaseException | None = None) -> tuple[Any, ...]:
        """What only the answers to reviews have: warnings, and the code of an error."""
        warnings = getattr(self.context, 'warnings', None)
        if warnings is None:
            return ()
        code = getattr(error, 'code', None) if isinstance(error, AdmissionError) else None
        code = code if isinstance(code, int) and 0 < code < 1000 else None
        texts = [encoding.as_text(warning) for warning in warnings]
        return (texts,) if error is None else (texts, code)

    def _finish(self) -> Job:
        """Give the job up: contexts of tasks may live longer than it should."""
        job, self._job = self.job, None
        if isinstance(self.cause, DaemonCause):
            self.front.forget_call(job.call_number, self.cause.stopper)
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


def get_error_kind(error: BaseException) -> str:
    """How the engine is to treat an error."""
    if isinstance(error, HandlerChildrenRetry):
        return 'children'
    if isinstance(error, TemporaryError):
        return 'temporary'
    if isinstance(error, HandlerTimeoutError):
        return 'timeout'
    if isinstance(error, HandlerRetriesError):
        return 'retries'
    if isinstance(error, PermanentError):
        return 'permanent'
    if isinstance(error, (asyncio.CancelledError, SystemExit, KeyboardInterrupt)):
        return 'cancelled'
    return 'arbitrary'


def get_delay(error: TemporaryError) -> float | None:
    """The delay of an error in seconds, if it is one."""
    delay: Any = error.delay
    if delay is None:
        return None
    rule = f"The delay of {type(error).__name__} must be a number of seconds or None, but it is"
    try:
        seconds = math.nan if isinstance(delay, (str, bytes, bytearray)) else float(delay)
    except OverflowError:
        seconds = math.inf
    except Exception:
        seconds = math.nan
    if math.isnan(seconds):
        raise TypeError(f"{rule} a {type(delay).__name__}: {encoding.describe(delay)}")
    return seconds


def lower_title(handler: Handler) -> str:
    """The name of a handler inside of a sentence."""
    text = str(handler)
    return text[:1].lower() + text[1:]

"""A stand-in for the engine: makes no decisions, only passes jobs to the front and answers back.

Tests push jobs and wait for their answers; `install()` puts it in place of `kopf._native`.
"""
from __future__ import annotations

import asyncio
import json
import os
import sys
import types
from typing import Any, TypeVar

RESOURCE = {
    'group': 'kopf.dev', 'version': 'v1', 'plural': 'kopfexamples', 'kind': 'KopfExample',
    'singular': 'kopfexample', 'shortcuts': ['kex'], 'categories': [], 'subresources': ['status'],
    'namespaced': True, 'preferred': True, 'verbs': ['list', 'watch', 'patch'],
}


class ObjectMemory:
    """Where the memo of an object is."""

    memo: Any = None


class Cycle:
    """One cycle of one object."""

    def __init__(self, body: dict[str, Any], **fields: Any) -> None:
        self.body = json.dumps(body).encode()
        self.uid = body.get('metadata', {}).get('uid', '')
        self.resource = 0
        self.type = fields.get('type')
        self.reason = fields.get('reason')
        self.old = _encode(fields.get('old'))
        self.new = _encode(fields.get('new'))
        self.diff = _encode(fields.get('diff'))
        self.context: Any = None
        self.memory = fields.get('memory') or ObjectMemory()


class Job:
    """One job. The answer is kept, and can be waited for."""

    fields: dict[str, Any] = {}

    def __init__(self, **fields: Any) -> None:
        unknown = fields.keys() - self.fields.keys()
        assert not unknown, f'{type(self).__name__} has no {unknown}'
        for name, default in self.fields.items():
            setattr(self, name, fields.get(name, default))
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Any] = self._loop.create_future()

    async def get_answer(self) -> tuple[str, Any]:
        return await asyncio.wait_for(self._answer, 10)

    def _set(self, value: Any) -> None:
        self._loop.call_soon_threadsafe(self._set_future, self._answer, value)

    @staticmethod
    def _set_future(future: asyncio.Future[Any], value: Any) -> None:
        assert not future.done(), f"answered twice: {future} and {value}"
        future.set_result(value)


class Question(Job):
    """A job that is answered by one value."""

    def answer(self, value: Any = None, /) -> None:
        self._set(('answer', value))

    def fail(self, error: BaseException, /) -> None:
        self._set(('fail', error))


class Call(Job):
    """The call of a function."""

    fields: dict[str, Any] = {'handler': 0, 'started': 1600000000.0}

    def answer(self, result: Any, patch: Any, transformations: bool, *warnings: list[str]) -> None:
        more = {'warnings': warnings[0]} if warnings else {}
        _read(result), _read(patch)
        self._set(('done', {'result': result, 'patch': patch, 'fns': transformations, **more}))

    def answer_error(self, error: tuple[Any, ...], patch: Any, transformations: bool,
                     *warnings: list[str]) -> None:
        error_type, message, display, delay, raised, code = error
        more = {'warnings': warnings[0], 'code': code} if warnings else {}
        _read(patch), message.encode(), display.encode()
        assert delay is None or isinstance(delay, (int, float))
        self._set((error_type, {'message': message, 'display': display, 'delay': delay,
                                'error': raised, 'patch': patch, 'fns': transformations, **more}))

    def fail(self, error: BaseException, /) -> None:
        self._set(('fail', error))


class CallHandler(Call):
    fields = {**Call.fields, 'cycle': None, 'retry': 0, 'runtime': 0.0, 'timeout': None,
              'old': None, 'new': None, 'diff': None, 'call_number': None, 'latest_body': None}

    cycle: Cycle

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        for name in ('old', 'new', 'diff'):
            value = _encode(fields[name]) if name in fields else getattr(self.cycle, name)
            setattr(self, name, value)
        self.sub_batches: list[tuple[list[dict[str, Any]], str | None, Any]] = []
        self._sub_batch: asyncio.Future[Any] = self._loop.create_future()

    def execute(self, handlers: str, lifecycle: str | None, token: Any, /) -> None:
        item = (json.loads(handlers), lifecycle, token)
        self.sub_batches.append(item)
        self._loop.call_soon_threadsafe(self._set_future, self._sub_batch, item)

    async def get_sub_batch(self) -> tuple[list[dict[str, Any]], str | None, Any]:
        item = await asyncio.wait_for(self._sub_batch, 10)
        self._sub_batch = self._loop.create_future()
        return item


class CallActivity(Call):
    fields = {**Call.fields, 'activity': 'startup', 'retry': 0, 'runtime': 0.0, 'timeout': None}


class CallWebhook(Call):
    fields = {**Call.fields, 'review': None}
    retry, runtime, timeout = 0, 0.0, None


class EvaluateFilters(Question):
    fields = {'cycle': None, 'questions': ()}


class EvaluateReviewFilters(Question):
    fields = {'review': None, 'questions': ()}


class EvaluateSelector(Question):
    fields = {'handler': 0, 'resource': json.dumps(RESOURCE)}


class ChooseHandlers(Question):
    fields = {'cycle': None, 'handlers': (), 'state': '{}'}


class ComputeInitialDelay(Question):
    fields = {'cycle': None, 'handler': 0}


class ReadStorage(Question):
    fields = {'cycle': None, 'question': '{}'}


class WriteStorage(Question):
    fields = {'cycle': None, 'operations': '[]'}


class TransformBody(Question):
    fields = {'cycle': None, 'body': b'{}'}


class TransformReviewed(Question):
    fields = {'review': None, 'body': b'{}'}


class Configure(Question):
    pass


class ListActivities(Question):
    pass


class Ping(Question):
    pass


class EmitLog(Job):
    fields = {'logger': 'kopf.objects', 'level': 20, 'message': '', 'reference': None,
              'local': False, 'error': None}


class Unindex(Job):
    fields = {'uid': '', 'ids': ()}


class StopCall(Job):
    fields = {'call_number': 0, 'reasons': 0}


class SubHandlersDone(Job):
    fields = {'token': None, 'done': False, 'delay': None}


class ServeWebhooks(Job):
    pass


class WebhookServer(Job):
    fields = {'number': 0, 'client_config': None, 'error': None}


class ReviewAnswered(Job):
    fields = {'token': None, 'response': 'null'}


class Ready(Job):
    pass


class Finished(Job):
    fields = {'message': None}


JOBS: tuple[type[Job], ...] = (
    CallHandler, CallActivity, CallWebhook, EvaluateFilters, EvaluateReviewFilters,
    EvaluateSelector, ChooseHandlers, ComputeInitialDelay, ReadStorage, WriteStorage, TransformBody,
    TransformReviewed, Configure, ListActivities, Ping, EmitLog, Unindex, StopCall,
    SubHandlersDone, ServeWebhooks, WebhookServer, ReviewAnswered, Ready, Finished)

AnyJob = TypeVar('AnyJob', bound=Job)


class Operator:
    """The engine of one operator."""

    instances: list[Operator] = []

    def __init__(self, config: str, /) -> None:
        self.config = json.loads(config)
        self.jobs: list[Job] = []
        self.levels: list[dict[str, int]] = []
        self.events: list[tuple[dict[str, Any], list[float]]] = []
        self.started = False
        self.closed = False
        self.stop_reasons: list[str] = []
        self._reader, self._writer = os.pipe()
        self.instances.append(self)

    def fileno(self) -> int:
        return self._reader

    def start(self) -> None:
        self.started = True

    def take(self) -> list[Job]:
        os.read(self._reader, 4096)
        jobs, self.jobs = self.jobs, []
        return jobs

    def stop(self, reason: str, /) -> None:
        self.stop_reasons.append(reason)
        self.push(Finished)

    def close(self) -> None:
        self.closed = True
        os.close(self._reader)
        os.close(self._writer)

    def set_levels(self, levels: str, /) -> None:
        self.levels.append(json.loads(levels))

    def post_event(self, event: str, backoffs: list[float], /) -> bool:
        _read(event)
        self.events.append((json.loads(event), list(backoffs)))
        return True

    def resource(self, index: int, /) -> str:
        return json.dumps(RESOURCE)

    # For tests.

    def push(self, job_type: type[AnyJob], **fields: Any) -> AnyJob:
        job = job_type(**fields)
        self.jobs.append(job)
        os.write(self._writer, b'.')
        return job

    async def ask(self, job_type: type[Job], **fields: Any) -> tuple[str, Any]:
        return await self.push(job_type, **fields).get_answer()

    async def configure(self) -> dict[str, Any]:
        kind, value = await self.ask(Configure)
        assert kind == 'answer', value
        return json.loads(value)


def install(monkeypatch: Any) -> None:
    module = types.ModuleType('kopf._native')
    for fake in (*JOBS, Operator):
        setattr(module, fake.__name__, fake)
    Operator.instances = []
    monkeypatch.setitem(sys.modules, 'kopf._native', module)
    import kopf
    monkeypatch.setattr(kopf, '_native', module, raising=False)


def _read(text: str | None) -> None:
    """Refuse what the engine refuses."""
    if text is not None:
        json.dumps(json.loads(text, parse_int=float), ensure_ascii=False, allow_nan=False).encode()


def _encode(value: Any) -> bytes | None:
    return json.dumps(value).encode() if value is not None else None

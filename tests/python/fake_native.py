"""A stand-in for the engine: takes no decisions, only carries jobs to the front and answers back.

Tests push jobs and wait for their answers; `install()` puts it in place of `kopf._native`.
"""
from __future__ import annotations

import asyncio
import json
import os
import sys
import types
from typing import Any

KINDS = ('LOG', 'ACTIVITY', 'CONFIGURE', 'LOGIN', 'CALL', 'FILTERS', 'CHOOSE', 'STORAGE_READ',
         'STORAGE_WRITE', 'TRANSFORM', 'UNINDEX', 'SUB_DONE', 'READY', 'FINISHED',
         'ADMISSION', 'SERVED', 'REVIEWED', 'PULSE',
         'STOP', 'DELAY', 'ACTIVITIES')

RESOURCE = {
    'group': 'kopf.dev', 'version': 'v1', 'plural': 'kopfexamples', 'kind': 'KopfExample',
    'singular': 'kopfexample', 'shortcuts': ['kex'], 'categories': [], 'subresources': ['status'],
    'namespaced': True, 'preferred': True, 'verbs': ['list', 'watch', 'patch'],
}


class Keeper:
    """What keeps the memo of an object."""

    memory: Any = None


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
        self.keeper = fields.get('keeper') or Keeper()


class Job:
    """One job. The answer is kept, and can be waited for."""

    def __init__(self, kind: int, operator: Operator, **fields: Any) -> None:
        self.kind = kind
        self.operator = operator
        self.message = fields.get('message')
        self.level = fields.get('level', 20)
        self.logger = fields.get('logger', 'kopf.objects')
        self.reference = fields.get('reference')
        self.local = fields.get('local', False)
        self.error = fields.get('error')
        self.handler = fields.get('handler', 0)
        self.handlers = fields.get('handlers', ())
        self.state = fields.get('state')
        self.activity = fields.get('activity')
        self.cycle = fields.get('cycle')
        self.review = fields.get('review')
        self.number = fields.get('number', 0)
        self.content = fields.get('content')
        self.retry = fields.get('retry', 0)
        self.started = fields.get('started', 1600000000.0)
        self.runtime = fields.get('runtime', 0.0)
        self.timeout = fields.get('timeout')
        self.call_number = fields.get('call_number')
        self.reasons = fields.get('reasons', 0)
        self.live = fields.get('live')
        cycle = self.cycle
        self.old = _encode(fields['old']) if 'old' in fields else cycle and cycle.old
        self.new = _encode(fields['new']) if 'new' in fields else cycle and cycle.new
        self.diff = _encode(fields['diff']) if 'diff' in fields else cycle and cycle.diff
        self.questions = fields.get('questions', ())
        self.operations = fields.get('operations')
        self.body = fields.get('body')
        self.uid = fields.get('uid', '')
        self.ids = fields.get('ids', ())
        self.token = fields.get('token')
        self.done = fields.get('done', False)
        self.delay = fields.get('delay')
        self.rounds: list[tuple[list[dict[str, Any]], str | None, Any]] = []
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Any] = self._loop.create_future()
        self._round: asyncio.Future[Any] = self._loop.create_future()

    def answer(self, value: Any, /) -> None:
        self._set(('answer', value))

    def fail(self, error: BaseException, /) -> None:
        self._set(('fail', error))

    def answer_call(self, result: Any, patch: Any, transformations: bool,
                    warnings: list[str] | None = None) -> None:
        more = {} if warnings is None else {'warnings': warnings}
        _read(result), _read(patch)
        self._set(('done', {'result': result, 'patch': patch, 'fns': transformations, **more}))

    def fail_call(self, kind: str, message: str, display: str, delay: float | None,
                  error: BaseException, patch: Any, transformations: bool,
                  warnings: list[str] | None = None, code: int | None = None) -> None:
        more = {} if warnings is None else {'warnings': warnings, 'code': code}
        _read(patch), message.encode(), display.encode()
        assert delay is None or isinstance(delay, (int, float))
        self._set((kind, {'message': message, 'display': display, 'delay': delay,
                          'error': error, 'patch': patch, 'fns': transformations, **more}))

    def execute(self, handlers: str, lifecycle: str | None, token: Any, /) -> None:
        item = (json.loads(handlers), lifecycle, token)
        self.rounds.append(item)
        self._loop.call_soon_threadsafe(self._set_future, self._round, item)

    async def get_answer(self) -> tuple[str, Any]:
        return await asyncio.wait_for(self._answer, 10)

    async def get_round(self) -> tuple[list[dict[str, Any]], str | None, Any]:
        item = await asyncio.wait_for(self._round, 10)
        self._round = self._loop.create_future()
        return item

    def _set(self, value: Any) -> None:
        self._loop.call_soon_threadsafe(self._set_future, self._answer, value)

    @staticmethod
    def _set_future(future: asyncio.Future[Any], value: Any) -> None:
        assert not future.done(), f"answered twice: {future} and {value}"
        future.set_result(value)


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
        self.push('FINISHED')

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

    def push(self, kind: str, **fields: Any) -> Job:
        job = Job(KINDS.index(kind), self, **fields)
        self.jobs.append(job)
        os.write(self._writer, b'.')
        return job

    async def ask(self, kind: str, **fields: Any) -> tuple[str, Any]:
        return await self.push(kind, **fields).get_answer()

    async def configure(self) -> dict[str, Any]:
        kind, value = await self.ask('CONFIGURE')
        assert kind == 'answer', value
        return json.loads(value)


def install(monkeypatch: Any) -> None:
    module = types.ModuleType('kopf._native')
    for index, name in enumerate(KINDS):
        setattr(module, name, index)
    module.Operator = Operator  # type: ignore[attr-defined]
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

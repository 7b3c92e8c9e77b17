"""Jobs of the engine: what the front answers. The engine is a stand-in; see `fake_native`."""
from __future__ import annotations

import asyncio
import contextvars
import datetime
import json
import logging
import threading
import time
from typing import Any

import pytest

import kopf
from tests.python.fake_native import (
    CallActivity,
    CallHandler,
    ChooseHandlers,
    Cycle,
    EmitLog,
    EvaluateFilters,
    EvaluateSelector,
    Operator,
    Ping,
    ReadStorage,
    TransformBody,
    Unindex,
    WriteStorage,
)

BODY: dict[str, Any] = {
    'apiVersion': 'kopf.dev/v1', 'kind': 'KopfExample',
    'metadata': {'name': 'n', 'namespace': 'ns', 'uid': 'u', 'labels': {'a': 'b'}},
    'spec': {'x': 1},
}
RESOURCE_KWARGS = {
    'param', 'retry', 'started', 'runtime', 'logger', 'memo', 'resource', 'patch', 'body', 'spec',
    'meta', 'status', 'uid', 'name', 'namespace', 'labels', 'annotations'}


def make_cycle(**fields: Any) -> Cycle:
    return Cycle(BODY, **{'type': 'ADDED', 'reason': 'create', 'new': {'spec': {'x': 1}},
                          'diff': [['add', [], None, {'spec': {'x': 1}}]], **fields})


async def call(operator: Operator, cycle: Cycle | None = None, **fields: Any) -> tuple[str, Any]:
    """Call the first of the declared handlers."""
    config = await operator.configure()
    index = config['handlers'][0]['index']
    return await operator.ask(CallHandler, **{'cycle': cycle or make_cycle(), 'handler': index,
                                         **fields})


def run_call(run_operator: Any, cycle: Cycle | None = None, **fields: Any) -> tuple[str, Any]:
    return run_operator(lambda operator: call(operator, cycle, **fields))


def both(fn: Any) -> Any:
    """Run a test with a coroutine function and with a regular one."""
    return pytest.mark.parametrize('is_async', [True, False], ids=['async', 'sync'])(fn)


def register(body: Any, is_async: bool, decorator: Any = None, id: str = 'fn') -> None:
    decorator = decorator or kopf.on.create('kopfexamples', id=id)
    if is_async:
        async def async_fn(**kwargs: Any) -> Any:
            return body(**kwargs)
        decorator(async_fn)
    else:
        def sync_fn(**kwargs: Any) -> Any:
            return body(**kwargs)
        decorator(sync_fn)


# Calls of handlers.


@both
def test_kwargs_of_changes(run_operator: Any, is_async: bool) -> None:
    calls: list[dict[str, Any]] = []
    register(lambda **kwargs: calls.append(kwargs), is_async,
             kopf.on.create('kopfexamples', param=5))
    result = run_call(run_operator, retry=3, started=1600000000.5, runtime=7.5,
                      old=None, new=1, diff=[['add', ['x', 'y'], None, 1]])
    assert result == ('done', {'result': None, 'patch': None, 'fns': False})
    [kwargs] = calls
    assert set(kwargs) == RESOURCE_KWARGS | {'reason', 'old', 'new', 'diff'}
    assert kwargs['body'] == BODY and kwargs['spec'] == {'x': 1} and kwargs['status'] == {}
    assert kwargs['meta'] == BODY['metadata'] and kwargs['labels'] == {'a': 'b'}
    assert kwargs['annotations'] == {}
    assert (kwargs['uid'], kwargs['name'], kwargs['namespace']) == ('u', 'n', 'ns')
    assert kwargs['param'] == 5 and kwargs['retry'] == 3
    assert kwargs['started'] == datetime.datetime(
        2020, 9, 13, 12, 26, 40, 500000, tzinfo=datetime.timezone.utc)
    assert kwargs['runtime'] == datetime.timedelta(seconds=7.5)
    assert kwargs['reason'] == 'create' and isinstance(kwargs['reason'], kopf.Reason)
    assert kwargs['old'] is None and kwargs['new'] == 1
    assert kwargs['diff'] == (('add', ('x', 'y'), None, 1),)
    assert isinstance(kwargs['diff'], kopf.Diff)
    assert kwargs['resource'] == kopf.Resource('kopf.dev', 'v1', 'kopfexamples')
    assert kwargs['resource'].shortcuts == {'kex'}
    assert isinstance(kwargs['logger'], kopf.ObjectLogger)
    assert not isinstance(kwargs['logger'], kopf.LocalObjectLogger)
    assert kwargs['memo'] == kopf.Memo() and kwargs['patch'] == {}


@both
def test_kwargs_of_events(run_operator: Any, is_async: bool) -> None:
    calls: list[dict[str, Any]] = []
    register(lambda **kwargs: calls.append(kwargs), is_async, kopf.on.event('kopfexamples'))
    run_call(run_operator, make_cycle(type=None))
    assert set(calls[0]) == RESOURCE_KWARGS | {'type', 'event'}
    assert calls[0]['type'] is None and calls[0]['event'] == {'type': None, 'object': BODY}
    assert isinstance(calls[0]['logger'], kopf.LocalObjectLogger)


@both
def test_kwargs_of_activities(run_operator: Any, is_async: bool) -> None:
    calls: list[dict[str, Any]] = []
    register(lambda **kwargs: calls.append(kwargs), is_async, kopf.on.startup())
    settings, memo = kopf.OperatorSettings(), object()

    async def scenario(operator: Operator) -> Any:
        [declaration] = operator.config['activities']
        assert declaration['activity'] == 'startup'
        return await operator.ask(CallActivity, handler=declaration['index'], activity='startup')

    result = run_operator(scenario, settings=settings, memo=memo)
    assert result == ('done', {'result': None, 'patch': None, 'fns': False})
    assert set(calls[0]) == {'param', 'retry', 'started', 'runtime', 'logger', 'memo', 'activity',
                             'settings'}
    assert calls[0]['settings'] is settings and calls[0]['memo'] is memo
    assert calls[0]['activity'] == 'startup'
    assert calls[0]['logger'].name == 'kopf.activities.startup'


@both
def test_results(run_operator: Any, is_async: bool) -> None:
    register(lambda spec, **_: {'a': (1, 2), 'spec': spec, 'reason': kopf.Reason.CREATE}, is_async)
    kind, answer = run_call(run_operator)
    assert kind == 'done'
    assert json.loads(answer['result']) == {'a': [1, 2], 'spec': {'x': 1}, 'reason': 'create'}


@both
@pytest.mark.parametrize('value, path', [
    ({'a': {'b': [1, object()]}}, 'a.b[1]'), ({'moment': datetime.date(2020, 1, 1)}, 'moment'),
    ({'x': float('nan')}, 'x'), ({'x': {1, 2}}, 'x'), ({'x': b'y'}, 'x'), ({('a', 'b'): 1}, 'a'),
])
def test_result_that_is_not_json(
        run_operator: Any, is_async: bool, value: Any, path: str) -> None:
    register(lambda **_: value, is_async)
    kind, answer = run_call(run_operator)
    assert kind == 'permanent'
    assert "The result of handler 'fn' is not JSON-compatible" in answer['message']
    assert path in answer['message']


@both
def test_patch(run_operator: Any, is_async: bool) -> None:
    def body(patch: kopf.Patch, **_: Any) -> None:
        patch.status['x'] = 1
        patch.fns.append(lambda body: None)
    register(body, is_async)
    kind, answer = run_call(run_operator)
    assert (kind, json.loads(answer['patch']), answer['fns']) == (
        'done', {'status': {'x': 1}}, True)


@both
def test_patch_comes_with_errors_too(run_operator: Any, is_async: bool) -> None:
    def body(patch: kopf.Patch, **_: Any) -> None:
        patch.status['x'] = 1
        raise kopf.TemporaryError("boo", delay=5)
    register(body, is_async)
    kind, answer = run_call(run_operator)
    assert (kind, answer['patch'], answer['delay']) == ('temporary', '{"status":{"x":1}}', 5)


def test_patch_that_is_not_json_does_not_spoil_the_cycle(run_operator: Any) -> None:
    @kopf.on.create('kopfexamples')
    async def first(patch: kopf.Patch, **_: Any) -> None:
        patch.status['good'] = 1

    @kopf.on.create('kopfexamples', id='second')
    async def second(patch: kopf.Patch, **_: Any) -> None:
        patch.status['good'] = 2
        patch.status['bad'] = object()

    @kopf.on.create('kopfexamples')
    async def third(patch: kopf.Patch, **_: Any) -> None:
        patch.status['also'] = 3

    async def scenario(operator: Operator) -> Any:
        config = await operator.configure()
        cycle = make_cycle()
        return [await operator.ask(CallHandler, cycle=cycle, handler=declaration['index'])
                for declaration in config['handlers']]

    one, two, three = run_operator(scenario)
    assert one[1]['patch'] == '{"status":{"good":1}}'
    assert two[0] == 'permanent'
    assert "The patch of handler 'second' is not JSON-compatible at 'status.bad'" \
        in two[1]['message']
    assert two[1]['patch'] == '{"status":{"good":1}}'
    assert three[1]['patch'] == '{"status":{"good":1,"also":3}}'


@both
@pytest.mark.parametrize('error, kind, message, display, delay', [
    (kopf.TemporaryError("x"), 'temporary', 'x', 'x', 60),
    (kopf.TemporaryError(), 'temporary', 'None', 'None', 60),
    (kopf.TemporaryError("x", delay=None), 'temporary', 'x', 'x', None),
    (kopf.PermanentError("x"), 'permanent', 'x', 'x', None),
    (kopf.AdmissionError("x"), 'permanent', 'x', 'x', None),
    (kopf.HandlerTimeoutError("x"), 'timeout', 'x', 'x', None),
    (kopf.HandlerRetriesError("x"), 'retries', 'x', 'x', None),
    (ValueError("x"), 'arbitrary', 'x', 'x', None),
    (ValueError(), 'arbitrary', '', 'ValueError()', None),
])
def test_errors(run_operator: Any, is_async: bool, error: Exception, kind: str, message: str,
                display: str, delay: Any) -> None:
    def body(**_: Any) -> None:
        raise error
    register(body, is_async)
    result, answer = run_call(run_operator)
    assert result == kind and answer['error'] is error
    assert (answer['message'], answer['display'], answer['delay']) == (message, display, delay)


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class _NoText(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


class _Unlike(BaseException):
    pass


class _Forgetful(kopf.TemporaryError):
    def __init__(self) -> None:
        pass


@both
@pytest.mark.parametrize('error, kind, display', [
    (_Mute(), 'arbitrary', '<_Mute: its text is not available: RuntimeError in __str__()>'),
    (_NoText(), 'arbitrary', '<_NoText: its text is not available: TypeError in __str__()>'),
    (Exception('file \udcff'), 'arbitrary', 'file \ufffd'),
    (kopf.PermanentError('file \udcff'), 'permanent', 'file \ufffd'),
    (GeneratorExit('x'), 'arbitrary', 'x'),
    (_Unlike('x'), 'arbitrary', 'x'),
    (asyncio.CancelledError(), 'arbitrary', 'CancelledError()'),
])
def test_every_error_is_answered(run_operator: Any, is_async: bool, error: BaseException,
                                 kind: str, display: str) -> None:
    def body(**_: Any) -> None:
        raise error
    register(body, is_async)
    result, answer = run_call(run_operator)
    assert (result, answer['display'], answer['error']) == (kind, display, error)


def test_stop_iteration_is_answered(run_operator: Any) -> None:
    def body(**_: Any) -> None:
        raise StopIteration('x')
    register(body, is_async=False)
    assert run_call(run_operator)[0] == 'arbitrary'


def test_task_that_was_cancelled_by_the_handler(run_operator: Any) -> None:
    """It is an error of the function; nobody has asked for the end of the call."""
    @kopf.on.create('kopfexamples')
    async def fn(**_: Any) -> None:
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task

    kind, answer = run_call(run_operator)
    assert (kind, answer['display']) == ('arbitrary', 'CancelledError()')


def test_all_tasks_cancelled_by_the_application(run_operator: Any) -> None:
    """Then the operator stops, and its calls are no failures of their handlers."""
    started = asyncio.Event()
    tasks: list[Any] = []

    @kopf.on.create('kopfexamples')
    async def fn(**_: Any) -> None:
        tasks.append(asyncio.current_task())
        started.set()
        await asyncio.sleep(60)

    async def scenario(operator: Operator) -> Any:
        config = await operator.configure()
        job = operator.push(CallHandler, cycle=make_cycle(), handler=config['handlers'][0]['index'])
        await started.wait()
        tasks[0].cancel()
        [task] = [task for task in asyncio.all_tasks() if task.get_name() == 'kopf operator']
        task.cancel()
        return await job.get_answer()

    assert run_operator(scenario)[0] == 'cancelled'


@both
@pytest.mark.parametrize('delay, what', [
    ('5', "a str: '5'"), (datetime.timedelta(seconds=5), "a timedelta: datetime.timedelta"),
    (float('nan'), 'a float: nan'), ([5], r'a list: [5]'),
])
def test_delays_that_are_none(run_operator: Any, is_async: bool, delay: Any, what: str) -> None:
    error = kopf.TemporaryError('boo', delay=delay)

    def body(**_: Any) -> None:
        raise error
    register(body, is_async)
    kind, answer = run_call(run_operator)
    assert kind == 'arbitrary' and answer['error'].__cause__ is error
    assert answer['display'].startswith(
        f'The delay of TemporaryError must be a number of seconds or None, but it is {what}')


@pytest.mark.parametrize('error, delay', [
    (kopf.TemporaryError('x', delay=10**400), float('inf')),
    (kopf.TemporaryError('x', delay=float('inf')), float('inf')),
    (kopf.TemporaryError('x', delay=True), 1), (_Forgetful(), 60),
])
def test_unusual_delays(run_operator: Any, error: kopf.TemporaryError, delay: float) -> None:
    def body(**_: Any) -> None:
        raise error
    register(body, is_async=True)
    kind, answer = run_call(run_operator)
    assert (kind, answer['delay']) == ('temporary', delay)


@both
@pytest.mark.parametrize('text, stored', [
    ('report-\udcff.txt', 'report-\ufffd.txt'), ('\ud83d\ude00 \ude00', '\U0001f600 \ufffd'),
    ('\\udcff \\\udcff', '\\udcff \\\ufffd'), ('\udcff\udcfe\ud800', '\ufffd' * 3),
])
def test_lone_surrogates_are_replaced(run_operator: Any, is_async: bool,
                                      text: str, stored: str) -> None:
    def body(patch: kopf.Patch, **_: Any) -> Any:
        patch.status['files'] = {text: [text]}
        return {text: text}
    register(body, is_async)
    kind, answer = run_call(run_operator)
    assert (kind, json.loads(answer['result'])) == ('done', {stored: stored})
    assert json.loads(answer['patch']) == {'status': {'files': {stored: [stored]}}}


def _deepen(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


class _Broken(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError('broken')

    __iter__ = items


@both
@pytest.mark.parametrize('value, what', [
    (10**400, 'int 1000'), (10**5000, 'int <int: its text is not available: ValueError'),
    (float('inf'), 'float inf'), (_deepen(200_000), 'str'), (_Broken(x=1), '_Broken'),
], ids=['huge', 'endless', 'infinite', 'deep', 'broken'])
def test_values_that_the_engine_cannot_read(run_operator: Any, is_async: bool,
                                            value: Any, what: str) -> None:
    """They are refused by their names, and do not spoil the patch of other handlers."""
    def patching(patch: kopf.Patch, **_: Any) -> None:
        patch.status['x'] = value

    def failing(patch: kopf.Patch, **_: Any) -> None:
        patch.status['x'] = value
        raise kopf.TemporaryError('boo')
    register(lambda **_: {'x': value}, is_async, id='returning')
    register(patching, is_async, id='patching')
    register(failing, is_async, id='failing')

    async def scenario(operator: Operator) -> Any:
        config = await operator.configure()
        return [await operator.ask(CallHandler, cycle=make_cycle(), handler=declaration['index'])
                for declaration in config['handlers']]

    for title, (kind, answer) in zip(("The result of handler 'returning'",
                                      "The patch of handler 'patching'",
                                      "The patch of handler 'failing'"),
                                     run_operator(scenario), strict=True):
        assert (kind, answer['patch']) == ('permanent', None)
        assert answer['message'].startswith(f'{title} is not JSON-compatible')
        assert what in answer['message']


@both
def test_wrong_signature(
        run_operator: Any, is_async: bool, caplog: pytest.LogCaptureFixture) -> None:
    if is_async:
        @kopf.on.create('kopfexamples')
        async def fn(spec: Any) -> None:
            pass
    else:
        @kopf.on.create('kopfexamples')  # type: ignore[no-redef]
        def fn(spec: Any) -> None:
            pass
    kind, answer = run_call(run_operator)
    assert kind == 'arbitrary' and isinstance(answer['error'], TypeError)
    [record] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert 'fn() in' in record.message and 'test_front.py:' in record.message
    assert 'add **kwargs' in record.message


def test_timeout_of_coroutines(run_operator: Any) -> None:
    @kopf.on.create('kopfexamples')
    async def fn(**_: Any) -> None:
        await asyncio.Event().wait()

    kind, answer = run_call(run_operator, timeout=0.01, runtime=4.99)
    assert kind == 'timeout'
    assert answer['message'].endswith("fn' has timed out after 0:00:05.")
    assert isinstance(answer['error'], kopf.HandlerTimeoutError)


def test_timely_coroutine_is_not_cancelled(run_operator: Any) -> None:
    @kopf.on.create('kopfexamples')
    async def fn(**_: Any) -> str:
        return 'in time'
    assert run_call(run_operator, timeout=10)[1]['result'] == '"in time"'


def test_sync_functions_run_in_the_executor_with_the_context(run_operator: Any) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar('variable')
    seen: list[Any] = []

    @kopf.on.create('kopfexamples')
    def fn(**_: Any) -> None:
        seen.append((threading.current_thread() is threading.main_thread(), variable.get()))

    variable.set('value')
    assert run_call(run_operator)[0] == 'done'
    assert seen == [(False, 'value')]


def test_function_that_gives_a_coroutine(run_operator: Any) -> None:
    async def inner(**_: Any) -> str:
        return 'awaited'
    kopf.on.create('kopfexamples', id='fn')(lambda **kwargs: inner(**kwargs))
    assert run_call(run_operator)[1]['result'] == '"awaited"'


def test_exit_from_a_handler_stops_the_operator(run_operator: Any) -> None:
    @kopf.on.create('kopfexamples')
    def fn(**_: Any) -> None:
        raise SystemExit(5)
    with pytest.raises(SystemExit):
        run_call(run_operator)


def test_memo_is_copied_per_object_and_kept(run_operator: Any) -> None:
    @kopf.on.create('kopfexamples')
    async def fn(memo: kopf.Memo, **_: Any) -> Any:
        memo.counter = memo.get('counter', 0) + 1
        return dict(memo)

    async def scenario(operator: Operator) -> Any:
        index = (await operator.configure())['handlers'][0]['index']
        one = make_cycle()
        answers = [await operator.ask(CallHandler, cycle=one, handler=index)]
        again = make_cycle(memory=one.memory)
        answers.append(await operator.ask(CallHandler, cycle=again, handler=index))
        answers.append(await operator.ask(CallHandler, cycle=make_cycle(), handler=index))
        return [json.loads(answer['result']) for _, answer in answers]

    memo = kopf.Memo(common=1)
    assert run_operator(scenario, memo=memo) == [
        {'common': 1, 'counter': 1}, {'common': 1, 'counter': 2}, {'common': 1, 'counter': 1}]
    assert memo == {'common': 1}


# Filters, lifecycles, storages, transformations.


def test_settings_without_effect_are_warned_about(
        run_operator: Any, caplog: pytest.LogCaptureFixture) -> None:
    """After the startup handlers, which are where settings are changed."""
    settings = kopf.OperatorSettings()

    async def scenario(operator: Operator) -> None:
        settings.persistence.consistency_timeout = 10
        await operator.configure()

    run_operator(scenario, settings=settings)
    texts = [record.getMessage() for record in caplog.records if record.levelname == 'WARNING']
    assert [text for text in texts if 'no effect' in text] == [
        "settings.persistence.consistency_timeout has no effect: the engine knows the versions "
        "that its patches produce, and waits for no echoes."]


@pytest.mark.parametrize('name', ['indexers', 'memories', 'insights'])
def test_arguments_without_effect_are_warned_about(run_operator: Any, name: str) -> None:
    async def scenario(operator: Operator) -> None:
        pass

    with pytest.warns(UserWarning, match=f'{name}= has no effect'):
        run_operator(scenario, **{name: object()})
    run_operator(scenario, **{name: None})  # no warning: it would be an error here


def test_filters(run_operator: Any) -> None:
    seen: list[Any] = []

    def check(value: Any, spec: Any, old: Any, new: Any, reason: Any, **kwargs: Any) -> bool:
        seen.append((value, spec['x'], old, new, reason))
        return value == 1

    @kopf.on.update('kopfexamples', when=lambda spec, **_: spec['x'] == 1, field='spec.x',
                    new=check, labels={'a': lambda value, **_: value == 'b'},
                    annotations={'z': lambda value, **_: value is None})
    def fn(**_: Any) -> None:
        pass

    async def scenario(operator: Operator) -> Any:
        index = (await operator.configure())['handlers'][0]['index']
        return await operator.ask(EvaluateFilters, cycle=make_cycle(), questions=[
            (index, 'when', None), (index, 'new', b'1'), (index, 'new', b'2'),
            (index, 'labels.a', b'"b"'), (index, 'annotations.z', None)])

    assert run_operator(scenario) == ('answer', [True, True, False, True, True])
    assert seen == [(1, 1, None, {'spec': {'x': 1}}, 'create'),
                    (2, 1, None, {'spec': {'x': 1}}, 'create')]


def test_filters_of_events_and_resources(run_operator: Any) -> None:
    @kopf.on.event(lambda resource: resource.plural == 'pods', when=lambda type, **_: type is None)
    def fn(**_: Any) -> None:
        pass

    async def scenario(operator: Operator) -> Any:
        index = (await operator.configure())['handlers'][0]['index']
        pods = {'group': '', 'version': 'v1', 'plural': 'pods', 'verbs': ['list']}
        return [
            await operator.ask(EvaluateFilters, cycle=make_cycle(type=None),
                               questions=[(index, 'when', None)]),
            *[await operator.ask(EvaluateSelector, handler=index,
                                 resource=json.dumps({**pods, 'plural': plural}))
              for plural in ('pods', 'x')],
        ]

    assert run_operator(scenario) == [('answer', [True]), ('answer', True), ('answer', False)]


def test_filter_that_fails(run_operator: Any) -> None:
    kopf.on.create('kopfexamples', when=lambda **_: 1 / 0)(lambda **_: None)  # type: ignore

    async def scenario(operator: Operator) -> Any:
        index = (await operator.configure())['handlers'][0]['index']
        questions = [(index, 'when', None)]
        return await operator.ask(EvaluateFilters, cycle=make_cycle(), questions=questions)

    kind, error = run_operator(scenario)
    assert kind == 'fail' and isinstance(error, ZeroDivisionError)


def test_callbacks_of_conditions(run_operator: Any) -> None:
    @kopf.on.condition('kopfexamples', field='spec.x', value=lambda value, **_: value == 2)
    @kopf.on.condition(lambda resource: resource.plural == 'pods',
                       labels={'a': lambda value, **_: value is None},
                       when=lambda new, **_: new['spec']['x'] == 2)
    @kopf.on.create('kopfexamples')
    def fn(**_: Any) -> None:
        pass

    async def scenario(operator: Operator) -> Any:
        [declaration] = (await operator.configure())['handlers']
        assert declaration['when'] is False
        assert [condition['index'] for condition in declaration['conditions']] == [0, 1]
        index = declaration['index']
        questions = [
            (index, 'conditions.0.selector', None), (index, 'conditions.0.labels.a', None),
            (index, 'conditions.0.labels.a', b'"x"'), (index, 'conditions.0.when', None),
            (index, 'conditions.1.value', b'2'), (index, 'conditions.1.value', b'3'),
        ]
        return [
            await operator.ask(EvaluateFilters, cycle=make_cycle(new={'spec': {'x': value}}),
                               questions=questions)
            for value in (1, 2)]

    assert run_operator(scenario) == [
        ('answer', [False, True, False, False, True, False]),
        ('answer', [False, True, False, True, True, False]),
    ]


def test_lifecycle_of_the_user(run_operator: Any) -> None:
    for name in 'abc':
        kopf.on.create('kopfexamples', id=name)(lambda **_: None)

    def lifecycle(handlers: Any, state: Any, spec: Any, **_: Any) -> Any:
        assert spec == {'x': 1}
        return [handler for handler in reversed(handlers) if state[handler.id].retries < 5]

    async def scenario(operator: Operator) -> Any:
        config = await operator.configure()
        assert config['settings']['lifecycle'] == 'front'
        indexes = [declaration['index'] for declaration in config['handlers']]
        state = {name: {'retries': retries} for name, retries in zip('abc', [0, 7, 1], strict=True)}
        answer = await operator.ask(ChooseHandlers, cycle=make_cycle(), handlers=indexes,
                                    state=json.dumps(state))
        return answer, indexes

    answer, indexes = run_operator(scenario, lifecycle=lifecycle)
    assert answer == ('answer', [indexes[2], indexes[0]])


@pytest.mark.parametrize('name', ['asap', 'all_at_once', 'one_by_one', 'randomized', 'shuffled'])
def test_known_lifecycles(run_operator: Any, name: str) -> None:
    config = run_operator(lambda operator: operator.configure(),
                          lifecycle=getattr(kopf.lifecycles, name))
    assert config['settings']['lifecycle'] == name


class Storage(kopf.AnnotationsProgressStorage):
    def __init__(self) -> None:
        super().__init__(prefix='my.io')
        self.flushed = 0

    def flush(self) -> None:
        self.flushed += 1


def test_storage_of_the_user(run_operator: Any) -> None:
    storage = Storage()

    @kopf.on.startup()
    def startup(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.persistence.progress_storage = storage

    body = {**BODY, 'metadata': {**BODY['metadata'], 'annotations': {
        'my.io/fn': '{"retries":3}',
        'kopf.zalando.org/last-handled-configuration': '{"spec":{"x":0}}'}},
        'status': {'s': 5}}
    cycle = Cycle(body)

    async def scenario(operator: Operator) -> Any:
        await operator.ask(CallActivity, handler=0, activity='startup')
        config = await operator.configure()
        assert config['settings']['persistence']['progress_storage'] == {'type': 'front'}
        read = await operator.ask(ReadStorage, cycle=cycle, question=json.dumps(
            {'ids': ['fn', 'other'], 'extra_fields': [['status', 's']], 'progress': True,
             'diffbase': True}))
        partial = await operator.ask(ReadStorage, cycle=cycle, question=json.dumps(
            {'ids': ['fn'], 'progress': True}))
        write = await operator.ask(WriteStorage, cycle=cycle, operations=json.dumps([
            {'op': 'store', 'id': 'other', 'record': {'retries': 1}},
            {'op': 'purge', 'id': 'fn'}, {'op': 'touch', 'value': None},
            {'op': 'diffbase', 'essence': {'spec': {}}}]))
        return read, partial, write

    read, partial, write = run_operator(scenario)
    assert json.loads(read[1]) == {
        'old': {'spec': {'x': 0}}, 'records': {'fn': {'retries': 3}},
        'new': {'spec': {'x': 1}, 'metadata': {'labels': {'a': 'b'}}, 'status': {'s': 5}}}
    assert json.loads(partial[1]) == {'records': {'fn': {'retries': 3}}}
    assert json.loads(write[1]) == {'metadata': {'annotations': {
        'my.io/other': '{"retries":1}', 'my.io/fn': None, 'my.io/kopf-managed': 'yes',
        'kopf.zalando.org/last-handled-configuration': '{"spec":{}}\n'}}}
    assert storage.flushed == 1


def test_transformations(run_operator: Any) -> None:
    @kopf.on.create('kopfexamples')
    async def fn(patch: kopf.Patch, **_: Any) -> None:
        patch.fns.append(lambda body: body['spec'].update(y=body['spec']['x'] + 1))
        patch.fns.append(lambda body: body['spec'].pop('x'))

    async def scenario(operator: Operator) -> Any:
        cycle = make_cycle()
        await call(operator, cycle)
        fresh = json.dumps({'spec': {'x': 10}}).encode()
        return await operator.ask(TransformBody, cycle=cycle, body=fresh)

    assert run_operator(scenario) == ('answer', '{"spec":{"y":11}}')


# Logs, levels, events.


def test_log_records(run_operator: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    reference = {'name': 'n', 'namespace': 'ns'}

    async def scenario(operator: Operator) -> Any:
        try:
            raise ValueError("boo")
        except ValueError as error:
            operator.push(EmitLog, logger='kopf.objects', level=40, message="100% failed",
                          reference=json.dumps(reference), local=True, error=error)
        operator.push(EmitLog, logger='kopf.activities.startup', level=10, message="plain")
        await operator.configure()

    run_operator(scenario)
    one, two = [record for record in caplog.records if record.message in ("100% failed", "plain")]
    assert (one.name, one.levelno, one.k8s_ref, one.k8s_skip) == (  # type: ignore[attr-defined]
        'kopf.objects', 40, reference, True)
    assert one.exc_info and one.exc_info[0] is ValueError
    assert two.name == 'kopf.activities.startup' and not hasattr(two, 'k8s_ref')


def test_levels_are_mirrored(run_operator: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def scenario(operator: Operator) -> Any:
        assert operator.config['levels']['kopf.objects'] == logging.WARNING
        caplog.set_level(logging.DEBUG, logger='kopf.objects')
        await operator.configure()
        return operator.levels[-1]['kopf.objects']

    assert run_operator(scenario) == logging.DEBUG


def test_events(run_operator: Any) -> None:
    @kopf.on.create('kopfexamples')
    def fn(body: kopf.Body, logger: Any, **_: Any) -> None:
        kopf.event(body, type='T', reason='R', message='M')
        kopf.info(body, reason='I', message='x' * 600 + 'y' * 600)
        kopf.warn([body, {'kind': 'C', 'metadata': {'name': 'c'}}], reason='W', backoffs=5)
        try:
            raise ValueError("boo")
        except ValueError:
            kopf.exception(body, message="failed:")
        kopf.info({'apiVersion': 'v1', 'kind': 'Event'}, reason='never')
        logger.info("not posted by default")

    async def scenario(operator: Operator) -> Any:
        assert (await call(operator))[0] == 'done'
        return operator.events

    events = run_operator(scenario)
    bodies = [body for body, _ in events]
    assert [(body['type'], body['reason']) for body in bodies] == [
        ('T', 'R'), ('Normal', 'I'), ('Warning', 'W'), ('Warning', 'W'), ('Error', 'ValueError')]
    moment = bodies[0]['firstTimestamp']
    assert bodies[0] == {
        'metadata': {'namespace': 'ns', 'generateName': 'kopf-event-'},
        'action': 'Action?', 'type': 'T', 'reason': 'R', 'message': 'M',
        'reportingComponent': 'kopf', 'reportingInstance': 'dev', 'source': {'component': 'kopf'},
        'involvedObject': {'apiVersion': 'kopf.dev/v1', 'kind': 'KopfExample', 'name': 'n',
                           'uid': 'u', 'namespace': 'ns'},
        'firstTimestamp': moment, 'lastTimestamp': moment, 'eventTime': moment}
    assert len(bodies[1]['message']) == 1024
    assert bodies[1]['message'] == 'x' * 511 + '...' + 'y' * 510
    assert bodies[3]['metadata']['namespace'] == 'default'
    assert bodies[3]['involvedObject'] == {'kind': 'C', 'name': 'c', 'namespace': 'default'}
    assert bodies[4]['message'] == 'failed: boo'
    assert [backoffs for _, backoffs in events][:3] == [
        [1, 1, 2, 3, 5, 8, 13, 21], [1, 1, 2, 3, 5, 8, 13, 21], [5]]


@pytest.mark.parametrize('changes, expected', [
    ({'loggers': True}, ['one', 'two']), ({'loggers': True, 'level': logging.WARNING}, ['two']),
    ({'loggers': True, 'enabled': False}, []), ({}, []),
])
def test_log_messages_as_events(
        run_operator: Any, changes: Any, expected: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    settings = kopf.OperatorSettings()
    for name, value in changes.items():
        setattr(settings.posting, name, value)

    @kopf.on.create('kopfexamples')
    def fn(logger: Any, **_: Any) -> None:
        logger.info("one")
        logger.warning("two")

    async def scenario(operator: Operator) -> Any:
        await call(operator)
        return operator.events

    events = run_operator(scenario, settings=settings)
    assert [body['message'] for body, _ in events] == expected
    assert all(body['reason'] == 'Logging' for body, _ in events)
    assert all(backoffs == [1, 1, 2, 3, 5] for _, backoffs in events)


@both
def test_owner_is_implied(run_operator: Any, is_async: bool) -> None:
    children: list[Any] = []

    def body(**_: Any) -> None:
        child: dict[str, Any] = {}
        kopf.adopt(child)
        children.append(child)

    register(body, is_async)
    run_call(run_operator)
    assert children == [{'metadata': {
        'ownerReferences': [{'controller': True, 'blockOwnerDeletion': True,
                             'apiVersion': 'kopf.dev/v1', 'kind': 'KopfExample', 'name': 'n',
                             'uid': 'u'}],
        'generateName': 'n-', 'namespace': 'ns', 'labels': {'a': 'b'}}}]


def test_cause_is_known_to_private_addresses(run_operator: Any) -> None:
    from kopf._core.actions.execution import cause_var
    seen: list[Any] = []

    @kopf.on.create('kopfexamples')
    def fn(patch: kopf.Patch, **_: Any) -> None:
        cause = cause_var.get()
        seen.append((cause.body, cause.patch is patch, cause.reason))  # type: ignore

    run_call(run_operator)
    assert seen == [(BODY, True, 'create')]


def test_probes(run_operator: Any) -> None:
    @kopf.on.probe(id='async')
    async def async_fn(memo: kopf.Memo, settings: kopf.OperatorSettings, **_: Any) -> Any:
        return {'memo': dict(memo), 'priority': settings.peering.priority}

    @kopf.on.probe(id='sync')
    def sync_fn(**_: Any) -> int:
        return 5

    async def scenario(operator: Operator) -> list[Any]:
        indexes = {item['id']: item['index'] for item in operator.config['activities']}
        assert await operator.ask(Ping) == ('answer', None)
        return [await operator.ask(CallActivity, handler=indexes[id], activity='probe')
                for id in ('async', 'sync')]

    first, second = run_operator(scenario)
    assert json.loads(first[1]['result']) == {'memo': {}, 'priority': 0}
    assert second[1]['result'] == '5'


def test_indices_are_filled_by_calls_and_emptied_on_demand(run_operator: Any) -> None:
    seen: list[Any] = []

    @kopf.index('kopfexamples', id='names')
    async def names(name: str, patch: kopf.Patch, **_: Any) -> Any:
        patch.status['ignored'] = True
        return {'all': name}

    @kopf.index('kopfexamples', id='failing')
    def failing(**_: Any) -> Any:
        raise kopf.TemporaryError("not yet", delay=3)

    @kopf.on.create('kopfexamples', id='fn')
    def fn(names: kopf.Index[str, str], failing: kopf.Index[Any, Any], **_: Any) -> None:
        seen.append(({key: [*store] for key, store in names.items()}, dict(failing)))

    async def scenario(operator: Operator) -> list[Any]:
        handlers = {item['id']: item for item in (await operator.configure())['handlers']}
        assert handlers['names']['kind'] == 'indexing'

        async def call(id: str) -> Any:
            job = operator.push(CallHandler, cycle=make_cycle(), handler=handlers[id]['index'])
            return await job.get_answer()

        answers = [await call(id) for id in ('fn', 'names', 'failing', 'fn')]
        operator.push(Unindex, uid=make_cycle().uid, ids=['names', 'failing'])
        return [*answers, await call('fn')]

    answers = run_operator(scenario)
    assert answers[1] == ('done', {'result': None, 'patch': None, 'fns': False})
    assert answers[2][0] == 'temporary'
    name = json.loads(make_cycle().body)['metadata']['name']
    assert seen == [({}, {}), ({'all': [name]}, {}), ({}, {})]


def test_speed_of_calls_is_not_a_matter_of_luck(run_operator: Any) -> None:
    """A thousand of trivial calls in one go: all are answered, in less than seconds."""
    @kopf.on.create('kopfexamples')
    async def fn(**_: Any) -> None:
        pass

    async def scenario(operator: Operator) -> float:
        index = (await operator.configure())['handlers'][0]['index']
        started = time.perf_counter()
        jobs = [operator.push(CallHandler, cycle=make_cycle(), handler=index) for _ in range(1000)]
        for job in jobs:
            assert (await job.get_answer())[0] == 'done'
        return time.perf_counter() - started

    assert run_operator(scenario) < 5

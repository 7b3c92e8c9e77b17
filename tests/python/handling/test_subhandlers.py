"""Children of handlers: registered, executed, nested, finished or not."""
from __future__ import annotations

import contextvars
import json
from typing import Any

import pytest

import kopf
from kopf._call.context import front_var
from tests.python.fake_native import (
    CallHandler,
    ChooseHandlers,
    EvaluateFilters,
    Operator,
    SubHandlersDone,
)
from tests.python.handling.test_front import both, call, make_cycle


async def start(operator: Operator, **fields: Any) -> Any:
    """Start the only declared handler; give its job."""
    [declaration] = (await operator.configure())['handlers']
    return operator.push(CallHandler, **{
        'cycle': make_cycle(), 'handler': declaration['index'], **fields})


async def finish(operator: Operator, job: Any, done: bool, delay: float | None = None) -> Any:
    """Call all children of the round one by one, then finish the round."""
    children, _, token = await job.get_sub_batch()
    answers = {child['id']: await operator.ask(CallHandler, cycle=job.cycle, handler=child['index'])
               for child in children}
    operator.push(SubHandlersDone, token=token, done=done, delay=delay)
    return answers


@both
def test_children_run_after_the_parent(run_operator: Any, is_async: bool) -> None:
    def register_children(spec: Any) -> None:
        for task in ('a', 'b'):
            @kopf.subhandler(id=task, retries=3, param=task)
            def child(param: str, **_: Any) -> str:
                return f'{param} done'
        kopf.register(lambda **_: 'c done', id='c')

    if is_async:
        @kopf.on.create('kopfexamples')
        async def parent(spec: Any, **_: Any) -> str:
            register_children(spec)
            return 'parent done'
    else:
        @kopf.on.create('kopfexamples')  # type: ignore[no-redef]
        def parent(spec: Any, **_: Any) -> str:
            register_children(spec)
            return 'parent done'

    async def scenario(operator: Operator) -> Any:
        job = await start(operator)
        answers = await finish(operator, job, done=True)
        declarations, lifecycle, _ = job.sub_batches[0]
        assert lifecycle is None
        assert [child['kind'] for child in declarations] == ['changing'] * 3
        assert [child['selector'] for child in declarations] == [None] * 3
        assert [child['retries'] for child in declarations] == [3, 3, None]
        return {id: answer['result'] for id, (_, answer) in answers.items()}, \
            await job.get_answer()

    answers, (kind, answer) = run_operator(scenario)
    prefix = parent.__qualname__
    assert answers == {f'{prefix}/a': '"a done"', f'{prefix}/b': '"b done"',
                       f'{prefix}/c': '"c done"'}
    assert (kind, answer['result']) == ('done', '"parent done"')


@both
def test_unfinished_children_postpone_the_parent(run_operator: Any, is_async: bool) -> None:
    def add() -> None:
        kopf.register(lambda **_: None, id='child')
    if is_async:
        @kopf.on.create('kopfexamples')
        async def parent(patch: kopf.Patch, **_: Any) -> str:
            add()
            patch.status['x'] = 1
            return 'lost'
    else:
        @kopf.on.create('kopfexamples')  # type: ignore[no-redef]
        def parent(patch: kopf.Patch, **_: Any) -> str:
            add()
            patch.status['x'] = 1
            return 'lost'

    async def scenario(operator: Operator) -> Any:
        job = await start(operator)
        await finish(operator, job, done=False, delay=7)
        return await job.get_answer()

    kind, answer = run_operator(scenario)
    assert (kind, answer['delay']) == ('children', 7)
    assert json.loads(answer['patch']) == {'status': {'x': 1}}


def one(**_: Any) -> str:
    return 'one'


def two(**_: Any) -> str:
    return 'two'


@pytest.mark.parametrize('kwargs, ids', [
    ({'fns': [one, two]}, ['p/one', 'p/two']),
    ({'fns': {'x': one, 'y': two}}, ['p/x', 'p/y']),
])
def test_explicit_execution(run_operator: Any, kwargs: Any, ids: list[str]) -> None:
    steps: list[str] = []

    @kopf.on.create('kopfexamples', id='p')
    async def parent(**_: Any) -> None:
        await kopf.execute(**kwargs, lifecycle=kopf.lifecycles.all_at_once)
        steps.append('after')

    async def scenario(operator: Operator) -> Any:
        job = await start(operator)
        answers = await finish(operator, job, done=True)
        assert job.sub_batches[0][1] == 'all_at_once'
        return list(answers), await job.get_answer()

    answers, (kind, _) = run_operator(scenario)
    assert answers == ids and kind == 'done' and steps == ['after']


def test_execution_of_registered_children_is_only_once(run_operator: Any) -> None:
    @kopf.on.create('kopfexamples', id='p')
    async def parent(**_: Any) -> str:
        kopf.register(one)
        await kopf.execute()
        await kopf.execute()
        return 'done'

    async def scenario(operator: Operator) -> Any:
        job = await start(operator)
        await finish(operator, job, done=True)
        return await job.get_answer(), len(job.sub_batches)

    (kind, answer), rounds = run_operator(scenario)
    assert (kind, answer['result'], rounds) == ('done', '"done"', 1)


def test_nested_children_and_context(run_operator: Any) -> None:
    variable: contextvars.ContextVar[list[str]] = contextvars.ContextVar('variable')

    @kopf.on.create('kopfexamples', id='p')
    async def parent(**_: Any) -> None:
        variable.set(['parent'])

        @kopf.subhandler(id='c')
        async def child(**_: Any) -> None:
            variable.set([*variable.get(), 'child'])

            @kopf.subhandler(id='g')
            def grandchild(**_: Any) -> Any:
                return variable.get()

    async def scenario(operator: Operator) -> Any:
        job = await start(operator)
        [declaration], _, token = await job.get_sub_batch()
        assert declaration['id'] == 'p/c'
        child = operator.push(CallHandler, cycle=job.cycle, handler=declaration['index'])
        answers = await finish(operator, child, done=True)
        assert (await child.get_answer())[0] == 'done'
        operator.push(SubHandlersDone, token=token, done=True)
        return answers, await job.get_answer()

    answers, (kind, _) = run_operator(scenario)
    assert list(answers) == ['p/c/g'] and kind == 'done'
    assert json.loads(answers['p/c/g'][1]['result']) == ['parent', 'child']


def test_children_are_forgotten_after_their_round(run_operator: Any) -> None:
    fronts: list[Any] = []

    @kopf.on.create('kopfexamples', id='p')
    async def parent(**_: Any) -> None:
        fronts.append(front_var.get())
        kopf.register(one)

    async def scenario(operator: Operator) -> Any:
        job = await start(operator)
        await finish(operator, job, done=True)
        await job.get_answer()
        return len(fronts[0].handlers), len(fronts[0].sub_batches)

    assert run_operator(scenario) == (1, 0)


def test_filters_of_children(run_operator: Any) -> None:
    @kopf.on.update('kopfexamples', id='p')
    async def parent(**_: Any) -> None:
        kopf.subhandler(id='c', when=lambda spec, **_: spec['x'] == 1, field='spec.x',
                        old=1)(one)

    async def scenario(operator: Operator) -> Any:
        job = await start(operator)
        [declaration], _, token = await job.get_sub_batch()
        answer = await operator.ask(EvaluateFilters, cycle=job.cycle, questions=[
            (declaration['index'], 'when', None)])
        operator.push(SubHandlersDone, token=token, done=True)
        await job.get_answer()
        return declaration, answer

    declaration, answer = run_operator(scenario)
    assert declaration['field'] == ['spec', 'x'] and declaration['id'] == 'p/c'
    assert declaration['old'] == {'equals': 1} and declaration['field_needs_change'] is True
    assert answer == ('answer', [True])


def test_filters_of_children_see_the_field_of_the_parent(run_operator: Any) -> None:
    seen: list[Any] = []

    @kopf.on.field('kopfexamples', id='p', field='spec.x')
    async def parent(**_: Any) -> None:
        kopf.subhandler(id='c', when=lambda old, new, diff, **_: bool(
            seen.append((old, new, diff))))(one)

    async def scenario(operator: Operator) -> Any:
        job = await start(operator, old=1, new=2, diff=[['change', [], 1, 2]])
        [declaration], _, token = await job.get_sub_batch()
        answer = await operator.ask(EvaluateFilters, cycle=job.cycle, questions=[
            (declaration['index'], 'when', None)])
        operator.push(SubHandlersDone, token=token, done=True)
        await job.get_answer()
        return answer

    assert run_operator(scenario) == ('answer', [False])
    assert seen == [(1, 2, (('change', (), 1, 2),))]


def test_lifecycle_of_children(run_operator: Any) -> None:
    def last(handlers: Any, **_: Any) -> Any:
        return handlers[-1:]

    @kopf.on.create('kopfexamples', id='p')
    async def parent(**_: Any) -> None:
        await kopf.execute(fns=[one, two], lifecycle=last)

    async def scenario(operator: Operator) -> Any:
        job = await start(operator)
        children, lifecycle, token = await job.get_sub_batch()
        assert lifecycle == 'front'
        indexes = [child['index'] for child in children]
        answer = await operator.ask(ChooseHandlers, cycle=job.cycle, handlers=indexes, state='{}')
        operator.push(SubHandlersDone, token=token, done=True)
        await job.get_answer()
        return answer == ('answer', indexes[-1:])

    assert run_operator(scenario)


def test_events_have_no_children(run_operator: Any) -> None:
    async def parent(**_: Any) -> None:
        kopf.register(one)
    kopf.on.event('kopfexamples')(parent)
    kind, answer = run_operator(call)
    assert kind == 'arbitrary' and isinstance(answer['error'], TypeError)


def test_execution_in_events(run_operator: Any) -> None:
    @kopf.on.event('kopfexamples')
    async def parent(**_: Any) -> None:
        await kopf.execute(fns=[one])
    kind, answer = run_operator(call)
    assert kind == 'arbitrary' and isinstance(answer['error'], RuntimeError)


@pytest.mark.parametrize('kwargs, error', [
    ({'fns': [one], 'handlers': []}, TypeError), ({'fns': 5}, ValueError),
])
def test_wrong_execution(run_operator: Any, kwargs: Any, error: Any) -> None:
    @kopf.on.create('kopfexamples')
    async def parent(**_: Any) -> None:
        await kopf.execute(**kwargs)
    assert isinstance(run_operator(call)[1]['error'], error)


def test_old_and_new_only_in_updates(run_operator: Any) -> None:
    @kopf.on.create('kopfexamples')
    async def parent(**_: Any) -> None:
        kopf.subhandler(field='spec', old=1)(one)
    assert isinstance(run_operator(call)[1]['error'], TypeError)

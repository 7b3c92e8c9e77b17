"""The life of operators: starting, readiness, all the ways to stop, failures."""
from __future__ import annotations

import asyncio
import concurrent.futures
import os
import re
import signal
import threading
from typing import Any

import pytest

import kopf
from kopf._errors import ActivityError, EngineError
from tests.python import fake_native
from tests.python.fake_native import Operator


@pytest.fixture(autouse=True)
def _fake_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_native.install(monkeypatch)


async def start(**kwargs: Any) -> tuple[Operator, asyncio.Task[None]]:
    """Start one more operator; wait until its engine is there."""
    known = len(Operator.instances)
    task = asyncio.ensure_future(kopf.operator(**{'clusterwide': True, **kwargs}))
    while len(Operator.instances) == known and not task.done():
        await asyncio.sleep(0)
    if task.done():
        task.result()
    return Operator.instances[known], task


async def wait(task: asyncio.Task[None]) -> None:
    await asyncio.wait_for(task, 10)


@pytest.mark.parametrize('kwargs, expected', [
    ({'clusterwide': True}, {'clusterwide': True, 'namespaces': []}),
    ({'clusterwide': False, 'namespaces': ['a', 'b*']},
     {'clusterwide': False, 'namespaces': ['a', 'b*']}),
    ({'clusterwide': False, 'namespaces': [re.compile('x')]},
     {'clusterwide': False, 'namespaces': [{'regex': 'x'}]}),
])
def test_configuration(kwargs: Any, expected: Any) -> None:
    async def main() -> Any:
        operator, task = await start(**kwargs, stop_flag=(flag := asyncio.Event()))
        flag.set()
        await wait(task)
        assert operator.started and operator.closed
        return {name: operator.config[name] for name in expected}
    assert asyncio.run(main()) == expected


def test_wrong_configuration() -> None:
    for kwargs in [{'clusterwide': True, 'namespaces': ['x']},
                   {'clusterwide': False, 'namespace': 'x', 'namespaces': ['y']}]:
        with pytest.raises(TypeError):
            asyncio.run(kopf.operator(**kwargs))  # type: ignore[arg-type]


def test_implied_and_deprecated_scope() -> None:
    async def main(**kwargs: Any) -> Any:
        operator, task = await start(stop_flag=(flag := asyncio.Event()), **kwargs)
        flag.set()
        await wait(task)
        return operator.config['clusterwide'], operator.config['namespaces']
    with pytest.warns(FutureWarning):
        assert asyncio.run(main(clusterwide=False)) == (True, [])
    with pytest.warns(DeprecationWarning):
        assert asyncio.run(main(clusterwide=False, namespace='x')) == (False, ['x'])


def test_peering_settings() -> None:
    settings = kopf.OperatorSettings()

    async def main() -> None:
        _, task = await start(stop_flag=(flag := asyncio.Event()), settings=settings,
                              peering_name='p', priority=5, standalone=True)
        flag.set()
        await wait(task)
    asyncio.run(main())
    assert settings.peering.name == 'p' and settings.peering.mandatory
    assert settings.peering.priority == 5 and settings.peering.standalone
    assert settings.peering.clusterwide


@pytest.mark.parametrize('make', [asyncio.Event, threading.Event, concurrent.futures.Future,
                                  lambda: asyncio.get_running_loop().create_future()])
def test_flags(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level('INFO')

    async def main() -> Any:
        ready_flag, stop_flag = make(), make()
        operator, task = await start(ready_flag=ready_flag, stop_flag=stop_flag)
        operator.push(fake_native.Ready)
        while not (ready_flag.is_set() if hasattr(ready_flag, 'is_set') else ready_flag.done()):
            await asyncio.sleep(0)
        assert not operator.stop_reasons
        stop_flag.set() if hasattr(stop_flag, 'set') else stop_flag.set_result(None)
        await wait(task)
        return operator.stop_reasons
    assert asyncio.run(main()) == ['Stop-flag']
    assert [message for message in caplog.messages if message.startswith('Stop-flag is')]


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_signals(number: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level('INFO')

    async def main() -> Any:
        operator, task = await start()
        other, other_task = await start()
        os.kill(os.getpid(), number)
        await wait(task)
        await wait(other_task)
        return operator.stop_reasons, other.stop_reasons
    name = signal.Signals(number).name
    assert asyncio.run(main()) == ([f'Signal {name}'], [f'Signal {name}'])
    assert f"Signal {name} is received. Operator is stopping." in caplog.messages
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_repeated_signals_are_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level('INFO')

    async def main() -> Any:
        operator, task = await start()
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        await wait(task)
        return operator.stop_reasons
    assert asyncio.run(main()) == ['Signal SIGTERM']


def test_the_log_says_that_no_login_is_possible(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        _, task = await start(stop_flag=(flag := asyncio.Event()))
        flag.set()
        await wait(task)
    asyncio.run(main())
    assert any('no way to log in' in message for message in caplog.messages)


def test_cancellation_is_graceful() -> None:
    async def main() -> Any:
        operator, task = await start()
        foreign = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wait(task)
        assert not foreign.done(), "tasks of the application are not ours to cancel"
        foreign.cancel()
        return len(operator.stop_reasons), operator.closed
    assert asyncio.run(main()) == (1, True)


def test_run_in_own_and_given_loops() -> None:
    for loop in (None, asyncio.new_event_loop()):
        flag = threading.Event()
        flag.set()
        kopf.run(loop=loop, clusterwide=True, stop_flag=flag)
        if loop is not None:
            loop.close()
    assert len(Operator.instances) == 2


def test_operators_in_threads(caplog: pytest.LogCaptureFixture) -> None:
    flag = threading.Event()
    flag.set()
    threads = [threading.Thread(target=lambda: kopf.run(clusterwide=True, stop_flag=flag))
               for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(Operator.instances) == 3
    assert all(operator.closed for operator in Operator.instances)
    assert any('not in the main thread' in message for message in caplog.messages)


def test_failure_of_the_engine() -> None:
    async def main() -> None:
        operator, task = await start()
        operator.push(fake_native.Finished, message="no cluster at https://localhost")
        await wait(task)
    with pytest.raises(EngineError, match='no cluster at https://localhost'):
        asyncio.run(main())


def test_failure_of_a_startup_handler() -> None:
    @kopf.on.startup()
    def startup(**_: Any) -> None:
        raise kopf.PermanentError("not today")

    async def main() -> None:
        operator, task = await start()
        await operator.ask(fake_native.CallActivity, handler=0, activity='startup')
        operator.push(fake_native.Finished, message="One or more handlers failed.")
        await wait(task)
    with pytest.raises(ActivityError, match='One or more handlers failed') as info:
        asyncio.run(main())
    assert isinstance(info.value.__cause__, kopf.PermanentError)


def test_unfinished_handlers_are_cancelled_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('kopf._run.operator._PATIENCE_SECONDS', 0.1)
    cancelled: list[bool] = []

    @kopf.on.create('kopfexamples')
    async def fn(**_: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def main() -> Any:
        operator, task = await start(stop_flag=(flag := asyncio.Event()))
        index = (await operator.configure())['handlers'][0]['index']
        cycle = fake_native.Cycle({}, reason='create')
        job = operator.push(fake_native.CallHandler, handler=index, cycle=cycle)
        await operator.configure()
        flag.set()
        await wait(task)
        return (await job.get_answer())[0]
    assert asyncio.run(main()) == 'cancelled'
    assert cancelled == [True]


def test_vault_replaces_logins() -> None:
    from kopf._cogs.structs.credentials import Vault
    info = kopf.ConnectionInfo(server='https://x', default_namespace='ns')

    async def main() -> Any:
        operator, task = await start(
            stop_flag=(flag := asyncio.Event()), vault=Vault({'mine': info}))
        [declaration] = operator.config['activities']
        answer = await operator.ask(fake_native.CallActivity, handler=declaration['index'],
                                    activity='authentication')
        flag.set()
        await wait(task)
        return declaration['id'], answer
    id, (kind, answer) = asyncio.run(main())
    assert id == 'mine' and kind == 'done' and '"server":"https://x"' in answer['result']

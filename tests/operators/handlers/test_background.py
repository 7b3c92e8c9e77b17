"""Daemons and timers, as users run them."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable

import pytest

from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess

StartOperator = Callable[..., OperatorProcess]

FINALIZER = 'kopf.zalando.org/KopfFinalizerMarker'

DAEMONS = {
    'async': """
import asyncio, kopf

@kopf.daemon('kopfexamples')
async def daemon_fn(stopped, spec, logger, patch, **_):
    logger.info(f'Started with {spec.get("field")}.')
    seen = spec.get('field')
    while not stopped:
        if spec.get('field') != seen:
            seen = spec.get('field')
            logger.info(f'Seen {seen}.')
        await stopped.wait(0.05)
    logger.info(f'Stopped for {stopped.reason.name}.')
    patch.status['stopped'] = True
    return 'done'
""",
    'sync': """
import kopf

@kopf.daemon('kopfexamples')
def daemon_fn(stopped, spec, logger, patch, **_):
    logger.info(f'Started with {spec.get("field")}.')
    seen = spec.get('field')
    while not stopped:
        if spec.get('field') != seen:
            seen = spec.get('field')
            logger.info(f'Seen {seen}.')
        stopped.wait(0.05)
    logger.info(f'Stopped for {stopped.reason.name}.')
    patch.status['stopped'] = True
    return 'done'
""",
}


@pytest.mark.parametrize('form', list(DAEMONS))
def test_daemon_lives_as_long_as_its_object(
    operator: StartOperator, examples: ExampleObjects, form: str
) -> None:
    process = operator(DAEMONS[form])
    examples.create('obj', spec={'field': 'a'})
    process.wait_log('Started with a.')
    body = examples.wait('obj', lambda body: body['metadata'].get('finalizers'))
    assert body['metadata']['finalizers'] == [FINALIZER]
    examples.patch('obj', {'spec': {'field': 'b'}})
    process.wait_log('Seen b.')
    examples.delete('obj')
    examples.wait_gone('obj')
    process.wait_log('Stopped for RESOURCE_DELETED.')
    process.wait_log("Daemon 'daemon_fn' succeeded.")
    assert process.count('Started with') == 1
    assert process.stop() == 0


@pytest.mark.parametrize('form', list(DAEMONS))
def test_daemon_stops_with_the_operator_and_starts_with_it(
    operator: StartOperator, examples: ExampleObjects, form: str
) -> None:
    process = operator(DAEMONS[form])
    examples.create('obj', spec={'field': 'a'})
    process.wait_log('Started with a.')
    assert process.stop() == 0
    assert process.count('Stopped for OPERATOR_EXITING.') == 1
    assert process.count('did not exit in time') == 0
    assert examples.get('obj')['status'] == {'stopped': True, 'daemon_fn': 'done'}
    process.start()
    process.wait_log('Started with a.', count=2)
    assert process.stop() == 0


@pytest.mark.parametrize('kind', ['daemon', 'timer'])
def test_filters_stop_and_start_it_again(
    operator: StartOperator, examples: ExampleObjects, kind: str
) -> None:
    script = {
        'daemon': """
import kopf

@kopf.daemon('kopfexamples', labels={'run': 'yes'})
async def background_fn(stopped, logger, **_):
    logger.info('Running.')
    await stopped.wait()
    logger.info(f'Stopped for {stopped.reason.name}.')
""",
        'timer': """
import kopf

@kopf.timer('kopfexamples', interval=0.05, labels={'run': 'yes'})
async def background_fn(logger, **_):
    logger.info('Running.')
""",
    }[kind]
    process = operator(script)
    examples.create('obj')
    examples.create('other', metadata={'labels': {'run': 'yes'}})
    process.wait_log('/other]', 'Running.')
    assert process.count('/obj]', 'Running.') == 0
    runs = 0
    for _ in range(3):
        examples.patch('obj', {'metadata': {'labels': {'run': 'yes'}}})
        process.wait_log('/obj]', 'Running.', count=runs + 1)
        examples.wait('obj', lambda body: body['metadata'].get('finalizers'))
        examples.patch('obj', {'metadata': {'labels': {'run': 'no'}}})
        examples.wait('obj', lambda body: not body['metadata'].get('finalizers'))
        runs = process.count('/obj]', 'Running.')
        # The other one goes on, and shows that time goes by.
        if kind == 'timer':
            others = process.count('/other]', 'Running.')
            process.wait_log('/other]', 'Running.', count=others + 5)
            assert process.count('/obj]', 'Running.') == runs
    if kind == 'daemon':
        assert process.count('/obj]', 'Stopped for FILTERS_MISMATCH.') == 3
    assert process.stop() == 0


def test_object_is_released_when_the_thread_ends_not_at_the_next_poll(
    operator: StartOperator, examples: ExampleObjects, tmp_path: pathlib.Path
) -> None:
    gate = tmp_path / 'gate'
    process = operator(
        """
import os, time, kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.background.cancellation_polling = 3600

@kopf.daemon('kopfexamples')
def stubborn_fn(stopped, logger, **_):
    stopped.wait()
    logger.info('Exiting.')
    while not os.path.exists(os.environ['GATE']):
        time.sleep(0.01)
    logger.info('Exited.')
""",
        '--verbose',
        env={'GATE': str(gate)},
    )
    examples.create('obj')
    process.wait_log("Daemon 'stubborn_fn' is invoked.")
    examples.wait('obj', lambda body: body['metadata'].get('finalizers'))
    examples.delete('obj')
    process.wait_log('Exiting.')
    process.wait_log('is still exiting. The next check is in 3600 seconds.')
    assert examples.get('obj')['metadata']['finalizers'] == [FINALIZER]
    gate.touch()
    examples.wait_gone('obj')
    assert process.count('Exited.') == 1
    assert process.stop() == 0


def test_cancellation_by_steps(operator: StartOperator, examples: ExampleObjects) -> None:
    process = operator(
        """
import asyncio, kopf

@kopf.daemon('kopfexamples', cancellation_backoff=0.3, cancellation_timeout=0.3)
async def stubborn_fn(stopped, logger, **_):
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            reasons = [reason for reason in type(stopped.reason) if reason in stopped.reason]
            logger.info(f'Cancelled for {sorted(reason.name for reason in reasons)}.')

@kopf.daemon('kopfexamples', cancellation_timeout=10)
async def obedient_fn(**_):
    await asyncio.sleep(3600)
""",
        '--verbose',
    )
    examples.create('obj')
    process.wait_log('fn', 'is invoked', count=2)
    examples.wait('obj', lambda body: body['metadata'].get('finalizers'))
    examples.delete('obj')
    examples.wait_gone('obj')
    names = "['DAEMON_CANCELLED', 'DAEMON_SIGNALLED', 'RESOURCE_DELETED']"
    process.wait_log(f'Cancelled for {names}.')
    process.wait_log("Daemon 'stubborn_fn' did not exit in time. Leaving it orphaned.")
    process.wait_log("Daemon 'obedient_fn' is cancelled. Will escalate.")


def test_daemon_is_tried_again_after_errors(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    process = operator("""
import kopf

@kopf.daemon('kopfexamples', backoff=0.1, retries=4)
async def failing_fn(retry, logger, patch, **_):
    patch.status['retry'] = retry
    logger.info(f'Try {retry}.')
    if retry == 0:
        raise kopf.TemporaryError('not yet', delay=0.1)
    raise ValueError('boo')
""")
    examples.create('obj')
    process.wait_log("Daemon 'failing_fn'", 'it would exceed 4 retries on the next attempt')
    assert [process.count(f'Try {retry}.') for retry in range(5)] == [1, 1, 1, 1, 0]
    body = examples.wait('obj', lambda body: not body['metadata'].get('finalizers'))
    assert body['status'] == {'retry': 3}
    assert process.stop() == 0


def test_timer_ticks_and_stores(operator: StartOperator, examples: ExampleObjects) -> None:
    process = operator("""
import kopf

@kopf.timer('kopfexamples', interval=0.1)
async def tick_fn(status, memo, retry, **_):
    memo.count = memo.get('count', 0) + 1
    if memo.count == 2:
        raise kopf.PermanentError('never mind')
    return memo.count

@kopf.timer('kopfexamples', interval=0.1)
def tock_fn(patch, **_):
    patch.status['tock'] = 'yes'
""")
    examples.create('obj')
    body = examples.wait('obj', lambda body: (body.get('status') or {}).get('tick_fn', 0) >= 4)
    assert body['status']['tock'] == 'yes'
    assert process.count("Timer 'tick_fn' failed permanently: never mind") == 1
    examples.delete('obj')
    examples.wait_gone('obj')
    assert process.stop() == 0


def test_timer_waits_for_idling(operator: StartOperator, examples: ExampleObjects) -> None:
    process = operator("""
import time, kopf

@kopf.timer('kopfexamples', idle=0.5)
async def idle_fn(spec, logger, **_):
    logger.info(f'Idle with {spec.get("field")}.')
""")
    examples.create('obj', spec={'field': 0})
    process.wait_log('Idle with 0.')
    for number in range(1, 4):
        examples.patch('obj', {'spec': {'field': number}})
    process.wait_log('Idle with 3.')
    # Neither does it tick by itself, nor for what is not essential.
    assert process.count('Idle with') == 2
    assert process.stop() == 0


def test_initial_delay_by_a_function(operator: StartOperator, examples: ExampleObjects) -> None:
    process = operator("""
import kopf

def delay(spec, **_):
    return spec['delay']

@kopf.timer('kopfexamples', initial_delay=delay, interval=3600)
async def timer_fn(logger, **_):
    logger.info('Called.')

@kopf.on.startup()
def configure(settings, **_):
    settings.execution.default_backoff = 0.1
""")
    examples.create('late', spec={'delay': 3600})
    examples.create('soon', spec={'delay': 0.1})
    process.wait_log('/soon]', 'Called.')
    examples.create('wrong', spec={'delay': 'x'})
    process.wait_log('/wrong]', "The function for the initial delay of Timer 'timer_fn' has failed")
    process.wait_log('/wrong]', 'Called.')
    assert process.count('/late]', 'Called.') == 0
    assert process.stop() == 0


def test_sync_daemons_do_not_starve_handlers(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    process = operator("""
import kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.execution.max_workers = 2

@kopf.daemon('kopfexamples')
def daemon_fn(stopped, logger, **_):
    logger.info('Running.')
    stopped.wait()

@kopf.on.create('kopfexamples')
def create_fn(**_):
    pass
""")
    for number in range(4):
        examples.create(f'obj-{number}')
    process.wait_log("Handler 'create_fn' succeeded.", count=4)
    process.wait_log('Running.', count=2)
    process.wait_log(
        'The pool is exhausted: 2 calls of synchronous daemons wait for a thread', 'all 2 threads'
    )
    for number in range(4):
        examples.wait(f'obj-{number}', lambda body: body['metadata'].get('finalizers'))
    running = {f'obj-{number}' for number in range(4) if process.count(f'/obj-{number}] Running.')}
    examples.delete(min(running))
    process.wait_log('Running.', count=3)
    # What waits for a thread is stopped as well as what has one.
    for number in range(4):
        examples.delete(f'obj-{number}')
    for number in range(4):
        examples.wait_gone(f'obj-{number}')
    assert process.stop() == 0


def test_timers_survive_failures_of_the_patches(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    process = operator("""
import kopf

def fail(body):
    raise ValueError('boo')

@kopf.timer('kopfexamples', interval=0.1)
async def timer_fn(patch, memo, logger, **_):
    memo.count = memo.get('count', 0) + 1
    logger.info(f'Called {memo.count} times.')
    if memo.count == 1:
        patch.metadata.labels['x'] = 'not valid!'
    elif memo.count == 2:
        patch.fns.append(fail)
    else:
        patch.metadata.labels['x'] = 'valid'
""")
    examples.create('obj')
    process.wait_log('The API has rejected a patch')
    process.wait_log('Patching has failed: the transformations of the patch have failed')
    process.wait_log('Called 4 times.')
    examples.wait('obj', lambda body: body['metadata'].get('labels') == {'x': 'valid'})
    assert process.stop() == 0


def test_sharp_timers_keep_the_grid(operator: StartOperator, examples: ExampleObjects) -> None:
    process = operator("""
import asyncio, time, kopf

@kopf.timer('kopfexamples', interval=0.5, sharp=True)
async def sharp_fn(logger, **_):
    logger.info(f'Sharp at {time.monotonic()}')
    await asyncio.sleep(0.3)

@kopf.timer('kopfexamples', interval=0.5)
async def soft_fn(logger, **_):
    logger.info(f'Soft at {time.monotonic()}')
    await asyncio.sleep(0.3)
""")
    examples.create('obj')
    process.wait_log('Sharp at', count=4)
    process.wait_log('Soft at', count=4)
    pauses = {}
    for title in 'Sharp at', 'Soft at':
        times = [float(line.rsplit(' ', 1)[1]) for line in process.lines() if title in line]
        pauses[title] = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(pauses['Soft at']) >= 0.79, pauses
    assert all(pause >= 0.45 for pause in pauses['Sharp at']), pauses
    assert sum(pauses['Sharp at']) < sum(pauses['Soft at'][: len(pauses['Sharp at'])]), pauses
    assert process.stop() == 0


def test_orphaned_threads_do_not_block_the_exit(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    process = operator("""
import time, kopf

@kopf.daemon('kopfexamples')
def deaf_fn(logger, **_):
    logger.info('Running.')
    time.sleep(3600)
""")
    examples.create('obj')
    process.wait_log('Running.')
    assert process.stop() == 0
    assert process.count("Daemon 'deaf_fn' did not exit in time. Leaving it orphaned.") == 1


def test_nothing_is_left_of_objects_that_vanish(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    process = operator(DAEMONS['async'])
    examples.create('obj', spec={'field': 'a'})
    process.wait_log('Started with a.')
    examples.wait('obj', lambda body: body['metadata'].get('finalizers'))
    examples.patch('obj', {'metadata': {'finalizers': None}})
    examples.delete('obj')
    examples.wait_gone('obj')
    process.wait_log('Stopped for RESOURCE_DELETED.')
    assert process.stop() == 0


def test_nothing_of_python_is_left_between_the_calls(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    process = operator("""
import gc, kopf

@kopf.timer('kopfexamples', interval=0.3)
async def timer_fn(name, logger, **_):
    if name == 'obj-0':
        names = [type(item).__name__ for item in gc.get_objects()]
        kept = sum(name in ('CycleContext', 'LiveBody', 'Memo', 'Invocation') for name in names)
        logger.info(f'Kept {kept}')
""")
    for number in range(30):
        examples.create(f'obj-{number}')
    process.wait_log("/obj-29] Timer 'timer_fn' succeeded.", count=8)
    process.wait_log('Kept', count=8)
    kept = [int(line.rsplit(' ', 1)[1]) for line in process.lines() if 'Kept' in line]
    # Those that are called at the same time are there: four of each.
    assert kept[-1] <= 30 * 4, kept
    assert process.stop() == 0


def test_memos_outlive_the_ends_of_timers(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    """What a slow handler puts into the memo is there, whatever has ended in the meantime."""
    process = operator("""
import asyncio
import kopf

TICKED = asyncio.Event()

@kopf.on.create('kopfexamples')
async def create_fn(memo, **_):
    TICKED.clear()
    await TICKED.wait()
    memo.client = 'the client'

@kopf.timer('kopfexamples', id='timer', interval=0.1)
async def timer_fn(memo, **_):
    TICKED.set()
    return memo.get('client')
""")
    examples.create('obj', spec={})
    examples.wait('obj', lambda body: body['status']['timer'] == 'the client')
    assert process.stop() == 0

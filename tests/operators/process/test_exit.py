"""The end of an operator: its cleanup, and how long that may take."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.support.client import wait_for
from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess

StartOperator = Callable[..., OperatorProcess]

HANDLERS = """
import asyncio, time, kopf

@kopf.on.create('kopfexamples')
def create_fn(**_):
    return 'created'
"""


def started(operator: StartOperator, examples: ExampleObjects, script: str) -> OperatorProcess:
    """An operator that has shown that it works."""
    process = operator(HANDLERS + script)
    examples.create('obj')
    examples.wait('obj', lambda body: body['status']['create_fn'] == 'created')
    return process


def test_cleanup_is_tried_again(operator: StartOperator, examples: ExampleObjects) -> None:
    process = started(
        operator,
        examples,
        """
@kopf.on.cleanup(backoff=0.1)
async def cleanup_fn(retry, logger, **_):
    logger.info(f'Try {retry}.')
    if retry == 0:
        raise kopf.TemporaryError('not yet', delay=0.1)
    if retry == 1:
        raise ValueError('not yet, either')
""",
    )
    assert process.stop() == 0
    assert [process.count(f'Try {retry}.') for retry in range(4)] == [1, 1, 1, 0]
    assert process.count("Activity 'cleanup_fn' succeeded.") == 1


def test_cleanup_is_cancelled_at_its_timeout(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    process = started(
        operator,
        examples,
        """
@kopf.on.cleanup(timeout=0.5)
async def endless_fn(logger, **_):
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        logger.info('Cancelled.')
        raise

@kopf.on.cleanup()
def other_fn(logger, **_):
    logger.info('The others are called, too.')
""",
    )
    assert process.stop() == 1
    assert process.count('Cancelled.') == 1
    assert process.count("Activity 'endless_fn' has timed out after") > 0
    assert process.count('The others are called, too.') == 1


def test_cleanup_gives_up_after_its_timeout_also_between_attempts(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    process = started(
        operator,
        examples,
        """
@kopf.on.cleanup(timeout=0.5, backoff=0.2)
def failing_fn(**_):
    raise ValueError('never')
""",
    )
    assert process.stop() == 1
    assert process.count("Activity 'failing_fn'", 'never') > 1
    assert process.count("Activity 'failing_fn'", 'it would time out in 0.5 seconds')


def test_an_endless_exit_is_killed(operator: StartOperator, examples: ExampleObjects) -> None:
    process = started(
        operator,
        examples,
        """
@kopf.on.startup()
def configure(settings, **_):
    settings.process.ultimate_exiting_timeout = 0.5

@kopf.on.cleanup()
def endless_fn(logger, **_):
    logger.info('Cleaning up.')
    time.sleep(3600)
""",
    )
    assert process.stop() == -signal.SIGKILL
    assert process.count('Cleaning up.') == 1


@pytest.mark.parametrize(
    'daemon',
    [
        """
@kopf.daemon('kopfexamples')
async def daemon_fn(stopped, logger, **_):
    logger.info('Running.')
    try:
        await stopped.wait()
        await asyncio.sleep(1)
        logger.info('Has ended by itself.')
    except asyncio.CancelledError:
        logger.info('Cancelled in the middle.')
        raise
""",
        """
@kopf.daemon('kopfexamples')
def daemon_fn(stopped, logger, **_):
    logger.info('Running.')
    stopped.wait()
    time.sleep(1)
    logger.info('Has ended by itself.')
""",
    ],
    ids=['async', 'sync'],
)
def test_daemons_have_time_to_end(
    daemon: str, operator: StartOperator, examples: ExampleObjects
) -> None:
    """Also those without `cancellation_timeout=`, for which the engine does not wait."""
    process = started(operator, examples, daemon)
    process.wait_log('Running.')
    assert process.stop() == 0
    assert process.count('Has ended by itself.') == 1
    assert process.count('Cancelled in the middle.') == 0


def test_daemons_that_do_not_end_are_cancelled(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    process = started(
        operator,
        examples,
        """
@kopf.daemon('kopfexamples')
async def daemon_fn(logger, **_):
    logger.info('Running.')
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        logger.info('Cancelled.')
        raise
""",
    )
    process.wait_log('Running.')
    assert process.stop() == 0
    assert process.count('Cancelled.') == 1
    assert process.count('not ended in 5 seconds', "Daemon 'daemon_fn'") == 1


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_second_signal_ends_the_process_at_once(
    number: signal.Signals, operator: StartOperator, examples: ExampleObjects
) -> None:
    process = started(
        operator,
        examples,
        """
@kopf.on.cleanup()
def cleanup_fn(logger, **_):
    logger.info('Cleaning up.')
    time.sleep(3600)
""",
    )
    assert process.process is not None
    process.process.send_signal(number)
    process.wait_log('Cleaning up.')
    # One that comes right after the first one is the same one: shells send it twice.
    wait_for('The end by another signal', lambda: send(process, number), interval_seconds=0.2)
    assert process.wait() == -number
    assert process.count(f'Signal {number.name} is received again. The process ends at once.') == 1


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_second_signal_while_a_thread_holds_up_the_exit(
    number: signal.Signals, operator: StartOperator, examples: ExampleObjects
) -> None:
    """The interpreter waits for the threads of functions, after the operator has ended."""
    process = started(
        operator,
        examples,
        """
@kopf.on.create('kopfexamples')
def slow_fn(logger, **_):
    logger.info('Working.')
    time.sleep(3600)
""",
    )
    process.wait_log('Working.')
    assert process.process is not None
    process.process.send_signal(number)
    process.wait_log(f'Signal {number.name} is received.')
    wait_for('The end by another signal', lambda: send(process, number), interval_seconds=0.2)
    assert process.count('Traceback') == 0


def send(process: OperatorProcess, number: signal.Signals) -> bool:
    """Send the signal; tell whether the process has ended."""
    assert process.process is not None
    process.process.send_signal(number)
    return not process.is_running()

"""The settings of posting, queueing, scanning, execution, background and persistence, by effect.

Those of watching and networking are in a file of their own; so are peering, admission, the exit.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.api_proxy import ApiProxy, SeenRequest
from tests.support.client import kubeconfig_of, wait_for
from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess
from tests.support.plane import Plane

StartOperator = Callable[..., OperatorProcess]
FINALIZER = 'kopf.zalando.org/KopfFinalizerMarker'


def script(handlers: str, *settings: str) -> str:
    lines = ''.join(f'    settings.{setting}\n' for setting in settings)
    startup = f'@kopf.on.startup()\ndef configure(settings, **_):\n{lines or "    pass"}\n'
    imports = 'import asyncio, concurrent.futures, logging, threading\nimport kopf\n\n'
    return f'{imports}{startup}{handlers}'


POSTING = """
@kopf.on.create('kopfexamples')
def create_fn(body, logger, **_):
    kopf.info(body, reason='Informed', message='Something.')
    kopf.warn(body, reason='Warned', message='Something else.')
    logger.warning('Logged.')
"""


def wait_events(plane: Plane, namespace: str, count: int) -> list[dict[str, Any]]:
    path = f'/api/v1/namespaces/{namespace}/events'
    return wait_for(
        lambda: f'{count} events; they are {plane.client.get(path)["items"]}',
        lambda: found if len(found := plane.client.get(path)['items']) >= count else None,
    )


def test_names_and_sources_of_events(
    operator: StartOperator, examples: ExampleObjects, plane: Plane, namespace: str
) -> None:
    process = operator(
        script(
            POSTING,
            "posting.event_name_prefix = 'mine-'",
            "posting.reporting_component = 'some-operator'",
            "posting.reporting_instance = 'some-pod'",
        )
    )
    examples.create('obj')
    events = wait_events(plane, namespace, 2)
    assert {event['reason'] for event in events} == {'Informed', 'Warned'}
    for event in events:
        assert event['metadata']['name'].startswith('mine-')
        assert event['reportingComponent'] == event['source']['component'] == 'some-operator'
        assert event['reportingInstance'] == 'some-pod'
        assert event['involvedObject']['name'] == 'obj'
    assert process.stop() == 0


@pytest.mark.parametrize(
    'settings, expected',
    [
        (['posting.level = logging.WARNING'], {'Warned'}),
        (['posting.loggers = True', 'posting.level = logging.WARNING'], {'Warned', 'Logging'}),
        (['posting.enabled = False', 'posting.loggers = True'], set()),
    ],
)
def test_which_events_are_posted(
    operator: StartOperator,
    examples: ExampleObjects,
    plane: Plane,
    namespace: str,
    settings: list[str],
    expected: set[str],
) -> None:
    process = operator(script(POSTING, *settings))
    examples.create('obj')
    process.wait_log("/obj] Handler 'create_fn' succeeded.")
    # All that is queued is posted before the end.
    assert process.stop() == 0
    events = wait_events(plane, namespace, len(expected)) if expected else []
    events = events or plane.client.get(f'/api/v1/namespaces/{namespace}/events')['items']
    assert {event['reason'] for event in events} == expected


@pytest.mark.parametrize(
    'setting, pause',
    [('default_backoffs = 0.4', 0.4), ('default_backoffs = [0.7, 20]', 0.7)],
)
def test_events_are_posted_again(
    operator: StartOperator,
    examples: ExampleObjects,
    api_proxy: ApiProxy,
    tmp_path: pathlib.Path,
    setting: str,
    pause: float,
) -> None:
    attempts = behind(api_proxy, tmp_path, is_posting, times=1)
    process = operator(
        script(POSTING, f'posting.{setting}', 'posting.worker_limit = 1'), env=attempts.env
    )
    examples.create('obj')
    first, second = attempts.wait(2)[:2]
    assert pause * 0.9 < second.began - first.began < pause + 5
    assert process.stop() == 0


def test_events_of_loggers_have_pauses_of_their_own(
    operator: StartOperator,
    examples: ExampleObjects,
    api_proxy: ApiProxy,
    tmp_path: pathlib.Path,
) -> None:
    handlers = (
        "@kopf.on.create('kopfexamples')\ndef fn(logger, **_):\n    logger.error('Logged.')\n"
    )
    attempts = behind(api_proxy, tmp_path, is_posting)
    settings = ['posting.loggers = True', 'posting.level = logging.ERROR']
    process = operator(
        script(handlers, *settings, 'posting.logging_backoffs = [0.1, 0.1]'), env=attempts.env
    )
    examples.create('obj')
    attempts.wait(3)
    process.wait_log('Failed to post an event')
    assert len(attempts.seen()) == 3
    assert process.stop() == 0


def is_posting(request: SeenRequest) -> bool:
    return request.path.endswith('/events')


class Attempts:
    """The requests that are refused on the way to the cluster, and the same ones later."""

    def __init__(
        self, api_proxy: ApiProxy, matches: Callable[[SeenRequest], bool], env: dict[str, str]
    ) -> None:
        self.api_proxy = api_proxy
        self.matches = matches
        self.env = env

    def seen(self) -> list[SeenRequest]:
        return [request for request in list(self.api_proxy.requests) if self.matches(request)]

    def wait(self, count: int) -> list[SeenRequest]:
        return wait_for(
            lambda: f'{count} attempts; they are {self.seen()}',
            lambda: found if len(found := self.seen()) >= count else None,
        )


def behind(
    api_proxy: ApiProxy,
    folder: pathlib.Path,
    matches: Callable[[SeenRequest], bool],
    **options: Any,
) -> Attempts:
    api_proxy.admit('Bearer any')
    api_proxy.inject(matches, code=500, **options)
    config = folder / 'own-kubeconfig'
    config.write_text(kubeconfig_of({'server': api_proxy.address}, {'token': 'any'}))
    return Attempts(api_proxy, matches, {'KUBECONFIG': str(config)})


COUNTED = """
running, most = 0, 0

@kopf.on.create('kopfexamples')
async def create_fn(logger, **_):
    global running, most
    running += 1
    most = max(most, running)
    await asyncio.sleep(0.2)
    running -= 1
    logger.info(f'At most {most}.')
"""


@pytest.mark.parametrize('limit', [1, 3])
def test_objects_at_the_same_time(
    operator: StartOperator, examples: ExampleObjects, limit: int
) -> None:
    for number in range(6):
        examples.create(f'obj-{number}')
    process = operator(script(COUNTED, f'queueing.worker_limit = {limit}'))
    process.wait_log('At most', count=6)
    assert process.count(f'At most {limit}.') > 0
    assert process.count('At most') == sum(
        process.count(f'At most {number}.') for number in range(1, limit + 1)
    )
    assert process.stop() == 0


def test_the_old_name_of_queueing(operator: StartOperator, examples: ExampleObjects) -> None:
    for number in range(3):
        examples.create(f'obj-{number}')
    process = operator(script(COUNTED, 'batching.worker_limit = 1', 'batching.batch_window = 5'))
    process.wait_log('At most 1.', count=3)
    assert process.stop() == 0


def test_how_long_the_handlers_may_take_at_the_end(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    handlers = """
@kopf.on.create('kopfexamples')
async def create_fn(name, logger, **_):
    logger.info('Begun.')
    await asyncio.sleep(1 if name == 'short' else 3600)
    logger.info('Done.')
"""
    process = operator(script(handlers, 'queueing.exit_timeout = 4'))
    examples.create('short')
    examples.create('long')
    process.wait_log('Begun.', count=2)
    assert process.stop() == 0
    assert process.count('/short] Done.') == 1
    assert process.count('/long] Done.') == 0
    body = examples.get('short')
    assert 'kopf.zalando.org/last-handled-configuration' in body['metadata']['annotations']


def test_pauses_after_unexpected_errors(
    operator: StartOperator,
    examples: ExampleObjects,
    api_proxy: ApiProxy,
    tmp_path: pathlib.Path,
) -> None:
    api_proxy.admit('Bearer any')
    fault = api_proxy.inject(lambda request: request.method == 'PATCH', code=403)
    config = tmp_path / 'own-kubeconfig'
    config.write_text(kubeconfig_of({'server': api_proxy.address}, {'token': 'any'}))
    handlers = "@kopf.on.create('kopfexamples')\ndef create_fn(**_):\n    return 'done'\n"
    process = operator(
        script(handlers, 'queueing.error_delays = [0.3, 0.6, *[0.2] * 100]'),
        env={'KUBECONFIG': str(config)},
    )
    examples.create('obj')
    for delay in 0.3, 0.6, 0.2:
        process.wait_log(f'/obj] Throttling for {delay} seconds due to an unexpected error')
    fault.removed.set()
    examples.wait('obj', lambda body: body['status']['create_fn'] == 'done')
    process.wait_log('/obj] Throttling is over.')
    pauses = [line for line in process.lines() if 'Throttling for' in line]
    assert ['for 0.3 ' in pauses[0], 'for 0.6 ' in pauses[1], 'for 0.2 ' in pauses[2]] == [True] * 3
    assert process.stop() == 0


@pytest.mark.parametrize('disabled', [False, True])
def test_scanning(
    operator: StartOperator,
    examples: ExampleObjects,
    api_proxy: ApiProxy,
    tmp_path: pathlib.Path,
    disabled: bool,
) -> None:
    api_proxy.admit('Bearer any')
    config = tmp_path / 'own-kubeconfig'
    config.write_text(kubeconfig_of({'server': api_proxy.address}, {'token': 'any'}))
    handlers = "@kopf.on.create('kopfexamples')\ndef create_fn(**_):\n    return 'done'\n"
    process = operator(
        script(handlers, f'scanning.disabled = {disabled}'), env={'KUBECONFIG': str(config)}
    )
    examples.create('obj')
    examples.wait('obj', lambda body: body['status']['create_fn'] == 'done')
    observed = [
        request
        for plural in ('namespaces', 'customresourcedefinitions')
        for request in api_proxy.select('GET', plural, watch='true')
    ]
    assert len(observed) == (0 if disabled else 2)
    assert process.stop() == 0


def test_where_synchronous_functions_run(operator: StartOperator, examples: ExampleObjects) -> None:
    handlers = """
@kopf.on.create('kopfexamples')
def create_fn(logger, **_):
    logger.info(f'In {threading.current_thread().name}.')

@kopf.timer('kopfexamples', interval=3600)
def timer_fn(logger, **_):
    logger.info(f'Ticking in {threading.current_thread().name}.')
"""
    executor = "concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix='mine')"
    process = operator(script(handlers, f'execution.executor = {executor}'))
    for number in range(3):
        examples.create(f'obj-{number}')
    process.wait_log('] In mine_0.', count=3)
    process.wait_log('] Ticking in mine_0.', count=3)
    assert process.stop() == 0


def test_too_small_a_pool_is_reported(operator: StartOperator, examples: ExampleObjects) -> None:
    handlers = """
gate = threading.Event()

@kopf.on.create('kopfexamples')
def create_fn(name, logger, **_):
    logger.info('Started.')
    if name == 'first':
        gate.wait()

@kopf.on.event('kopfexamples', labels={'open': 'yes'})
async def event_fn(**_):
    gate.set()
"""
    process = operator(script(handlers, 'execution.max_workers = 1'))
    examples.create('first')
    process.wait_log('/first] Started.')
    examples.create('last')
    process.wait_log('The pool is exhausted', 'synchronous handlers and timers', 'all 1 threads')
    examples.create('key', metadata={'labels': {'open': 'yes'}})
    process.wait_log("/last] Handler 'create_fn' succeeded.")
    assert process.stop() == 0


@pytest.mark.parametrize(
    'settings, instantly',
    [
        (['instant_exit_timeout = 3'], True),
        (['instant_exit_zero_time_cycles = 300'], True),
        (['instant_exit_timeout = 0.01', 'instant_exit_zero_time_cycles = 1000'], False),
        (['instant_exit_zero_time_cycles = None'], False),
    ],
)
def test_daemons_that_exit_in_an_instant(
    operator: StartOperator, examples: ExampleObjects, settings: list[str], instantly: bool
) -> None:
    """Until an instant is over, nothing is done about a daemon but to raise its flag."""
    handlers = """
@kopf.daemon('kopfexamples', cancellation_timeout=10)
async def daemon_fn(stopped, logger, **_):
    logger.info('Started.')
    await stopped.wait()
    try:
        await asyncio.sleep(0.5)
        logger.info('Exits by itself.')
    except asyncio.CancelledError:
        logger.info('Is cancelled.')
"""
    process = operator(script(handlers, *[f'background.{setting}' for setting in settings]))
    examples.create('obj')
    examples.wait('obj', lambda body: body['metadata'].get('finalizers'))
    process.wait_log('Started.')
    examples.delete('obj')
    examples.wait_gone('obj')
    assert bool(process.count('Exits by itself.')) is instantly, process.tail()
    assert bool(process.count('Is cancelled.')) is not instantly, process.tail()
    assert process.stop() == 0


def test_what_is_stored_under_which_names(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    handlers = """
@kopf.on.create('kopfexamples')
def create_fn(retry, **_):
    if not retry:
        raise kopf.TemporaryError('Once more.', delay=3600)

@kopf.on.delete('kopfexamples')
def delete_fn(**_):
    pass
"""
    process = operator(
        script(
            handlers,
            "persistence.finalizer = 'example.com/finalizer'",
            "persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix='p.x.dev')",
            'persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage('
            "prefix='d.example.com', key='last')",
        )
    )
    examples.create('obj')
    body = examples.wait('obj', lambda body: 'p.x.dev/create_fn' in body['metadata']['annotations'])
    progress = json.loads(body['metadata']['annotations']['p.x.dev/create_fn'])
    assert progress['retries'] == 1 and progress['message'] == 'Once more.'
    assert body['metadata']['finalizers'] == ['example.com/finalizer']
    assert not any('zalando' in key for key in body['metadata']['annotations'])
    examples.delete('obj')
    examples.wait_gone('obj')
    assert process.stop() == 0

"""The settings of watching and networking: what operators request, and how long they wait."""

from __future__ import annotations

import itertools
import pathlib
import socket
from collections.abc import Callable

import pytest

from tests.support.api_proxy import ApiProxy, SeenRequest
from tests.support.client import kubeconfig_of, wait_for
from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess

Configured = Callable[..., OperatorProcess]

SCRIPT = """
import kopf

@kopf.on.startup()
def configure(settings, **_):
    watching, networking = settings.watching, settings.networking
    {settings}

@kopf.on.event('kopfexamples')
def event_fn(type, logger, **_):
    logger.info(f'Seen as {{type}}.')

@kopf.on.create('kopfexamples', labels={{'handled': 'yes'}})
def create_fn(patch, **_):
    patch.status['created'] = True
"""


@pytest.fixture()
def configured(
    operator: Callable[..., OperatorProcess], api_proxy: ApiProxy, tmp_path: pathlib.Path
) -> Configured:
    """Start an operator with these settings, by their lines, behind the proxy."""

    def start(*settings: str, server: str = api_proxy.address) -> OperatorProcess:
        api_proxy.admit('Bearer any')
        config = tmp_path / 'own-kubeconfig'
        config.write_text(kubeconfig_of({'server': server}, {'token': 'any'}))
        script = SCRIPT.format(settings='\n    '.join(settings))
        return operator(script, '--verbose', env={'KUBECONFIG': str(config)})

    return start


def watches(api_proxy: ApiProxy) -> list[SeenRequest]:
    return api_proxy.select('GET', 'kopfexamples', watch='true')


def lists(api_proxy: ApiProxy) -> list[SeenRequest]:
    requests = api_proxy.select('GET', 'kopfexamples')
    return [request for request in requests if 'watch' not in request.query]


def wait_watched(api_proxy: ApiProxy, count: int = 1) -> list[SeenRequest]:
    return wait_for(
        lambda: f'{count} watches; they are {watches(api_proxy)}',
        lambda: found if len(found := watches(api_proxy)) >= count else None,
    )


def test_the_server_ends_watches_by_timeout(
    configured: Configured, examples: ExampleObjects, api_proxy: ApiProxy
) -> None:
    process = configured('watching.server_timeout = 1', 'watching.reconnect_backoff = 0.7')
    found = wait_watched(api_proxy, 3)
    assert {watch.query['timeoutSeconds'] for watch in found} == {'1'}
    for former, latter in itertools.pairwise(found):
        assert former.ended is not None
        assert former.ended - former.began < 10, 'it is the server who ends it'
        assert latter.began - former.ended > 0.6, 'there is a pause in between'
    examples.create('obj')
    process.wait_log('/obj]', 'Seen as ADDED.')
    assert len(lists(api_proxy)) == 1, 'the next watch goes on where the former has ended'
    assert process.stop() == 0


@pytest.mark.parametrize('setting', ['client_timeout', 'inactivity_timeout'])
def test_the_operator_ends_its_watches(
    configured: Configured, examples: ExampleObjects, api_proxy: ApiProxy, setting: str
) -> None:
    process = configured(f'watching.{setting} = 1')
    wait_watched(api_proxy, 3)
    examples.create('obj')
    process.wait_log('/obj]', 'Seen as ADDED.')
    assert all('timeoutSeconds' not in watch.query for watch in watches(api_proxy))
    silent = process.count('Watch-stream for kopfexamples.v1.kopf.dev', 'is inactive, reconnecting')
    assert bool(silent) is (setting == 'inactivity_timeout')
    assert len(lists(api_proxy)) == 1
    assert process.stop() == 0


def test_by_default_a_watch_lasts(
    configured: Configured, examples: ExampleObjects, api_proxy: ApiProxy
) -> None:
    process = configured('pass')
    for number in range(3):
        examples.create(f'obj-{number}')
        process.wait_log(f'/obj-{number}]', 'Seen as')
    [watch] = watches(api_proxy)
    assert set(watch.query) == {'watch', 'allowWatchBookmarks', 'resourceVersion'}
    assert process.stop() == 0


def test_a_watch_that_is_not_answered_is_tried_again(
    configured: Configured, examples: ExampleObjects, api_proxy: ApiProxy
) -> None:
    stuck = api_proxy.inject(lambda request: request in watches(api_proxy), times=1)
    process = configured('watching.connect_timeout = 0.5')
    examples.create('obj')
    process.wait_log('/obj]', 'Seen as')
    wait_watched(api_proxy, 2)
    assert len(stuck.met) == 1
    process.wait_log('The watch-stream for', 'has failed', 'no answer in 0.5 seconds')
    assert process.stop() == 0


def test_lists_come_in_chunks(
    configured: Configured, examples: ExampleObjects, api_proxy: ApiProxy
) -> None:
    for number in range(5):
        examples.create(f'obj-{number}')
    process = configured('watching.chunk_size = 2')
    process.wait_log('Seen as None.', count=5)
    assert [page.query['limit'] for page in lists(api_proxy)] == ['2', '2', '2']
    assert ['continue' in page.query for page in lists(api_proxy)] == [False, True, True]
    assert process.stop() == 0


def test_the_first_list_may_come_as_a_stream(
    configured: Configured, examples: ExampleObjects, api_proxy: ApiProxy
) -> None:
    examples.create('early')
    process = configured('watching.initial_streaming = True')
    process.wait_log('/early]', 'Seen as None.')
    examples.create('late')
    process.wait_log('/late]', 'Seen as ADDED.')
    assert lists(api_proxy) == []
    [watch] = watches(api_proxy)
    assert watch.query['sendInitialEvents'] == 'true'
    assert process.stop() == 0


@pytest.mark.parametrize(
    'key',
    [
        "'kopfexamples'",
        "'kopf.dev', 'kopfexamples'",
        "'kopf.dev', 'v1', 'kopfexamples'",
        "lambda resource: resource.plural == 'kopfexamples'",
    ],
)
def test_the_server_filters(
    configured: Configured, examples: ExampleObjects, api_proxy: ApiProxy, key: str
) -> None:
    shard = "shardRange(object.metadata.uid, '0x0000000000000000', '0x10000000000000000')"
    process = configured(
        f"watching.label_selectors[{key}] = 'wanted=yes'",
        "watching.label_selectors['kopf.dev', kopf.EVERYTHING] = 'sort!=bad'",
        f"watching.field_selectors[{key}] = 'metadata.name!=hidden'",
        f'watching.shard_selectors[{key}] = {shard!r}',
        "watching.label_selectors['others'] = 'some=thing'",
    )
    for name in 'hidden', 'obj':
        examples.create(name, metadata={'labels': {'wanted': 'yes'}})
    examples.create('bad', metadata={'labels': {'wanted': 'yes', 'sort': 'bad'}})
    examples.create('other')
    examples.create('last', metadata={'labels': {'wanted': 'yes'}})
    process.wait_log('/last]', 'Seen as')
    process.wait_log('/obj]', 'Seen as')
    assert [process.count(f'/{name}]') for name in ('hidden', 'bad', 'other')] == [0, 0, 0]
    for request in [*lists(api_proxy), *watches(api_proxy)]:
        assert request.query['labelSelector'] == 'sort!=bad,wanted=yes'
        assert request.query['fieldSelector'] == 'metadata.name!=hidden'
        assert request.query['shardSelector'] == shard
    assert process.stop() == 0


def patching(request: SeenRequest) -> bool:
    return request.method == 'PATCH' and '/kopfexamples/' in request.path


def create_handled(examples: ExampleObjects, name: str) -> None:
    examples.create(name, metadata={'labels': {'handled': 'yes'}})


@pytest.mark.parametrize('backoffs, pauses', [('0.4', [0.4]), ('(0.1, 0.9)', [0.1, 0.9])])
def test_pauses_between_attempts(
    configured: Configured,
    examples: ExampleObjects,
    api_proxy: ApiProxy,
    backoffs: str,
    pauses: list[float],
) -> None:
    refusing = api_proxy.inject(patching, code=429, times=len(pauses))
    process = configured(f'networking.error_backoffs = {backoffs}')
    create_handled(examples, 'obj')
    examples.wait('obj', lambda body: body['status']['created'])
    attempts = [*refusing.met, *[one for one in api_proxy.requests if patching(one)][len(pauses) :]]
    for pause, (former, latter) in zip(pauses, itertools.pairwise(attempts), strict=False):
        assert pause * 0.9 < latter.began - former.began < pause + 5
    total = len(pauses) + 1
    assert process.count(f'Request attempt #{len(pauses)}/{total} failed; will retry') == 1
    assert process.stop() == 0


@pytest.mark.parametrize(
    'enforced, backoff, asked, least, most',
    [
        (False, 0.1, 2, 1.9, 10),
        (True, 0.1, 2, 1.9, 10),
        (False, 3, 1, 2.9, 10),
        (True, 25, 1, 0.9, 10),
    ],
)
def test_the_pause_that_the_server_asks_for(
    configured: Configured,
    examples: ExampleObjects,
    api_proxy: ApiProxy,
    enforced: bool,
    backoff: float,
    asked: float,
    least: float,
    most: float,
) -> None:
    """The longer one is made; the setting lets the server have its way even if that is shorter."""
    refusing = api_proxy.inject(patching, code=429, times=1, headers={'Retry-After': str(asked)})
    process = configured(
        f'networking.error_backoffs = {backoff}', f'networking.enforce_retry_after = {enforced}'
    )
    create_handled(examples, 'obj')
    examples.wait('obj', lambda body: body['status']['created'])
    first, second, *_ = [request for request in api_proxy.requests if patching(request)]
    assert [first] == refusing.met
    assert least < second.began - first.began < most
    assert process.stop() == 0


def test_a_request_that_takes_too_long(
    configured: Configured, examples: ExampleObjects, api_proxy: ApiProxy
) -> None:
    stuck = api_proxy.inject(patching, times=1)
    process = configured('networking.request_timeout = 0.5', 'networking.error_backoffs = 0.1')
    create_handled(examples, 'obj')
    examples.wait('obj', lambda body: body['status']['created'])
    first, second, *_ = [request for request in api_proxy.requests if patching(request)]
    assert [first] == stuck.met
    assert 0.4 < second.began - first.began < 10
    assert process.stop() == 0


def test_a_connection_that_takes_too_long(configured: Configured) -> None:
    """Somebody listens, but says nothing: neither the server nor the network tells that."""
    with socket.create_server(('127.0.0.1', 0)) as silent:
        address = f'https://127.0.0.1:{silent.getsockname()[1]}'
        process = configured(
            'networking.connect_timeout = 0.5', 'networking.error_backoffs = 0.1', server=address
        )
        # It is 30 seconds by default.
        process.wait_log('cannot connect', timeout_seconds=15)
        assert process.stop() == 0

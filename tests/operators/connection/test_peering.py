"""Operators that know of each other: ours, and kopf 1.45.2 beside it."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.client import kubeconfig, wait_for
from tests.support.examples import ExampleObjects
from tests.support.manifests import CRDS, apply
from tests.support.operator_process import OperatorProcess, python_under_test
from tests.support.plane import Plane
from tests.support.upstream import python_of_upstream

StartOperator = Callable[..., OperatorProcess]

OPERATOR = """
import os
import kopf

@kopf.on.create('kopfexamples')
@kopf.on.update('kopfexamples')
def handle_fn(patch, spec, **_):
    patch.status['by'] = os.environ['POD_ID']
    patch.status['round'] = spec.get('round')
"""

PAUSING = 'Pausing operations in favour of'
RESUMING = 'Resuming operations after the pause.'


class Peering:
    """A peering object from outside."""

    def __init__(self, plane: Plane, path: str, name: str = 'team') -> None:
        self.client = plane.client
        self.path = f'{path}/{name}'
        kind = 'ClusterKopfPeering' if 'clusterkopf' in path else 'KopfPeering'
        version = (
            path.removeprefix('/apis/').split('/namespaces')[0].removesuffix('/clusterkopfpeerings')
        )
        body = {'apiVersion': version, 'kind': kind, 'metadata': {'name': name}}
        self.client.create(path, body)

    def peers(self) -> dict[str, Any]:
        return self.client.get(self.path).get('status', {})

    def wait(self, *identities: str) -> None:
        wait_for(
            lambda: f'{identities} in {self.peers()}',
            lambda: sorted(self.peers()) == sorted(identities),
        )


@pytest.fixture()
def peering(plane: Plane, namespace: str) -> Peering:
    return Peering(plane, f'/apis/kopf.dev/v1/namespaces/{namespace}/kopfpeerings')


@pytest.fixture()
def announce(examples: ExampleObjects) -> Iterator[Callable[[str], None]]:
    """A check by whom a change is handled."""
    rounds = 0

    def check(identity: str) -> None:
        nonlocal rounds
        rounds += 1
        number = rounds
        examples.patch('obj', {'spec': {'round': number}})
        body = examples.wait('obj', lambda body: body['status']['round'] == number)
        assert body['status']['by'] == identity, body['status']

    yield check


def run(operator: StartOperator, identity: str, *options: str, **kwargs: Any) -> OperatorProcess:
    return operator(OPERATOR, '--peering=team', *options, env={'POD_ID': identity}, **kwargs)


@pytest.mark.parametrize(
    'low, high', [('ours', 'ours'), ('ours', 'upstream'), ('upstream', 'ours')]
)
def test_the_higher_priority_works_and_the_other_waits(
    operator: StartOperator,
    examples: ExampleObjects,
    peering: Peering,
    announce: Callable[[str], None],
    low: str,
    high: str,
) -> None:
    pythons = {'ours': None, 'upstream': python_of_upstream()}
    examples.create('obj')
    first = run(operator, 'low', python=pythons[low])
    peering.wait('low')
    announce('low')
    second = run(operator, 'high', '--priority=10', python=pythons[high])
    first.wait_log(PAUSING)
    peering.wait('low', 'high')
    assert peering.peers()['high']['priority'] == 10 and peering.peers()['low']['lifetime'] == 60
    for _ in range(3):
        announce('high')
    assert second.stop() == 0
    first.wait_log(RESUMING)
    peering.wait('low')
    announce('low')
    assert first.stop() == 0
    peering.wait()
    assert second.count(PAUSING) == 0


def test_nothing_is_done_by_what_was_known_before_the_peers(
    plane: Plane, operator: StartOperator, examples: ExampleObjects, peering: Peering
) -> None:
    """The kind is named in full, so that its objects are listed while the kinds are discovered."""
    examples.create('obj', spec={'round': 1})
    boss = {'priority': 10, 'lifetime': 600, 'lastseen': '2100-01-01T00:00:00Z'}
    plane.client.patch(peering.path, {'status': {'boss': boss}})
    process = operator(
        """
import kopf

@kopf.on.create('kopf.dev', 'v1', 'kopfexamples')
def create_fn(spec, patch, logger, **_):
    logger.info(f'Sees {spec["round"]}.')
    patch.status['round'] = spec['round']
""",
        '--peering=team',
        '--verbose',
        env={'POD_ID': 'me'},
    )
    process.wait_log(PAUSING)
    # The other operator does its work, and leaves once it is done.
    examples.patch('obj', {'spec': {'round': 2}})
    plane.client.patch(peering.path, {'status': {'boss': None}})
    examples.wait('obj', lambda body: body['status']['round'] == 2)
    text = process.text()
    assert text.index(PAUSING) < text.index('Starting the watch-stream for kopfexamples')
    assert text.index(PAUSING) < text.index('The watch-streams are resumed.')
    assert process.count('Sees 1.') == 0 and process.count('Sees 2.') == 1
    assert process.stop() == 0


@pytest.mark.parametrize('other', ['ours', 'upstream'])
def test_the_same_priority_pauses_both(
    operator: StartOperator, examples: ExampleObjects, peering: Peering, other: str
) -> None:
    pythons = {'ours': None, 'upstream': python_of_upstream()}
    first = run(operator, 'first')
    peering.wait('first')
    second = run(operator, 'second', python=pythons[other])
    for process in first, second:
        process.wait_log('Possibly conflicting operators with the same priority: [<Peer ')
    first.wait_log('Pausing all operators, including self: [<Peer ')
    examples.create('obj')
    assert second.stop() == 0
    first.wait_log(RESUMING)
    body = examples.wait('obj', lambda body: body['status']['by'])
    assert body['status']['by'] == 'first'


@pytest.mark.parametrize(
    'python', [python_under_test, python_of_upstream], ids=['ours', 'upstream']
)
def test_freeze_and_resume_by_hand(
    plane: Plane,
    namespace: str,
    operator: StartOperator,
    examples: ExampleObjects,
    peering: Peering,
    tmp_path: pathlib.Path,
    python: Callable[[], pathlib.Path],
) -> None:
    """By our commands and by upstream's: one freezes what the other resumes."""
    config = tmp_path / 'admin'
    config.write_text(kubeconfig(plane.client, namespace=namespace))

    def command(python: pathlib.Path, *args: str) -> None:
        line = [str(python), '-m', 'kopf', *args, '-n', namespace, '--peering=team']
        subprocess.run(line, env={'KUBECONFIG': str(config), 'USER': 'me'}, check=True, timeout=60)

    process = run(operator, 'operator')
    peering.wait('operator')
    command(python(), 'freeze', '--lifetime=600', '-m', 'a reason')
    process.wait_log(PAUSING, 'priority=100, lifetime=600')
    examples.create('obj')
    command(python_under_test(), 'resume')
    process.wait_log(RESUMING)
    examples.wait('obj', lambda body: body['status']['by'] == 'operator')


def test_a_command_without_a_peering_object_tells_it(
    plane: Plane, namespace: str, tmp_path: pathlib.Path
) -> None:
    config = tmp_path / 'admin'
    config.write_text(kubeconfig(plane.client, namespace=namespace))
    line = [
        str(python_under_test()),
        '-m',
        'kopf',
        'freeze',
        '-t',
        '60',
        '-n',
        namespace,
        '-P',
        'unknown',
    ]
    done = subprocess.run(
        line, env={'KUBECONFIG': str(config)}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1 and 'no peering object named "unknown"' in done.stderr


def test_an_operator_that_was_killed_is_waited_for(
    operator: StartOperator, examples: ExampleObjects, peering: Peering
) -> None:
    examples.create('obj')
    text = OPERATOR + (
        '\n@kopf.on.startup()\ndef configure(settings, **_):\n    settings.peering.lifetime = 3\n'
    )
    options = ('--peering=team', '--priority=10')
    killed = operator(text, *options, env={'POD_ID': 'high'})
    examples.wait('obj', lambda body: body['status']['by'] == 'high')
    low = run(operator, 'low')
    low.wait_log(PAUSING)
    killed.kill()
    examples.patch('obj', {'spec': {'round': 1}})
    examples.wait('obj', lambda body: body['status']['by'] == 'low')
    low.wait_log(RESUMING)
    peering.wait('low')


def test_cluster_wide_and_by_the_old_group(
    plane: Plane, operator: StartOperator, examples: ExampleObjects
) -> None:
    """The old kind appears while the operator runs; there is a more important operator in it."""
    old_kind = (
        (CRDS / 'peering.yaml').read_text().split('---')[0].replace('kopf.dev', 'zalando.org')
    )
    peering = Peering(plane, '/apis/kopf.dev/v1/clusterkopfpeerings', 'old-team')
    options = ('-A', '--peering=old-team')
    try:
        process = operator(OPERATOR, *options, env={'POD_ID': 'me'})
        peering.wait('me')
        examples.create('obj')
        examples.wait('obj', lambda body: body['status']['by'] == 'me')
        apply(plane.client, old_kind)
        other = Peering(plane, '/apis/zalando.org/v1/clusterkopfpeerings', 'old-team')
        other.wait('me')
        peer = {'priority': 1, 'lifetime': 600, 'lastseen': '2100-01-01T00:00:00Z'}
        plane.client.patch(other.path, {'status': {'other': peer}})
        process.wait_log(PAUSING)
        plane.client.patch(other.path, {'status': {'other': None}})
        process.wait_log(RESUMING)
        assert process.stop() == 0
        peering.wait()
        other.wait()
    finally:
        plane.client.delete(peering.path)
        plane.client.delete(
            '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterkopfpeerings.zalando.org'
        )


@pytest.mark.parametrize('form', ['sync', 'async'])
def test_daemons_and_timers_stop_for_the_pause_and_start_again(
    plane: Plane, operator: StartOperator, examples: ExampleObjects, peering: Peering, form: str
) -> None:
    keyword, wait = ('async def', 'await ') if form == 'async' else ('def', '')
    process = operator(
        f"""
import kopf

@kopf.daemon('kopfexamples')
{keyword} daemon_fn(stopped, spec, logger, **_):
    logger.info(f'The daemon sees {{spec["round"]}}.')
    {wait}stopped.wait()
    logger.info(f'The daemon stops for {{stopped.reason.name}}.')

@kopf.timer('kopfexamples', interval=0.05)
{keyword} timer_fn(memo, spec, patch, logger, **_):
    memo.ticks = memo.get('ticks', 0) + 1
    logger.info(f'Tick {{memo.ticks}} of {{spec["round"]}}.')
""",
        '--peering=team',
        '--verbose',
        env={'POD_ID': 'me'},
    )
    examples.create('obj', spec={'round': 0})
    boss = {'priority': 100, 'lifetime': 600, 'lastseen': '2100-01-01T00:00:00Z'}
    for number in range(3):
        process.wait_log(f'The daemon sees {number}.')
        process.wait_log(f' of {number}.', 'Tick')
        examples.wait('obj', lambda body: body['metadata'].get('finalizers'))
        plane.client.patch(peering.path, {'status': {'boss': boss}})
        process.wait_log(PAUSING, count=number + 1)
        process.wait_log('The daemon stops for OPERATOR_PAUSING.', count=number + 1)
        process.wait_log('fn', 'has exited on request', count=2 * (number + 1))
        # The object is still ours, and nothing of it runs until the pause is over.
        body = examples.patch('obj', {'spec': {'round': number + 1}})
        assert len(body['metadata']['finalizers']) == 1
        assert process.count('The daemon sees') == number + 1
        assert process.count('Tick', f' of {number + 1}.') == 0
        plane.client.patch(peering.path, {'status': {'boss': None}})
        process.wait_log(RESUMING, count=number + 1)
    process.wait_log('The daemon sees 3.')
    process.wait_log('Tick', ' of 3.')
    assert process.count('The daemon sees') == 4
    # Memos outlive the pauses.
    assert process.count('Tick 1 of') == 1
    assert process.stop() == 0
    assert process.count('The daemon stops for OPERATOR_EXITING.') == 1


def test_stealth_says_nothing_of_keeping_alive(
    operator: StartOperator, examples: ExampleObjects, peering: Peering
) -> None:
    for stealth, identity in [(False, 'loud'), (True, 'quiet')]:
        text = OPERATOR + (
            f'\n@kopf.on.startup()\ndef configure(settings, **_):\n'
            f'    settings.peering.stealth = {stealth}\n'
        )
        process = operator(text, '--peering=team', '--verbose', env={'POD_ID': identity})
        peering.wait(identity)
        examples.create(identity)
        examples.wait(identity, lambda body, by=identity: body['status']['by'] == by)
        assert process.stop() == 0
        assert (process.count('Keep-alive in') > 0) is not stealth

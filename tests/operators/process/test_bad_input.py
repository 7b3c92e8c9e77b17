"""Bad input and failures: each gives one clear message that names the culprit, and nothing else
stops working.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.client import Client, wait_for
from tests.support.examples import ExampleObjects
from tests.support.manifests import apply, delete
from tests.support.operator_process import OperatorProcess, python_under_test
from tests.support.plane import Plane
from tests.support.processes import free_ports

StartOperator = Callable[..., OperatorProcess]

#: A handler that works, beside those which do not. Its objects are named so.
GOOD = """
import kopf

def is_good(name, **_):
    return name.startswith('good')

@kopf.on.create('kopf.dev', 'v1', 'kopfexamples', id='good', when=is_good)
def good_fn(**_):
    return 'good'
"""

AMBIGUOUS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: kopfambigs.{group}
spec:
  scope: Namespaced
  group: {group}
  names: {{kind: KopfAmbig, plural: kopfambigs, singular: kopfambig}}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


def kopf(
    *args: str, env: dict[str, str] | None = None, cwd: pathlib.Path | None = None
) -> tuple[int, str]:
    answer = subprocess.run(
        [str(python_under_test()), '-m', 'kopf', *args],
        cwd=cwd,
        env={'PATH': '/usr/bin:/bin', **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return answer.returncode, answer.stdout


def works(examples: ExampleObjects, name: str = 'good') -> None:
    """The good handler handles the good object."""
    examples.create(name, spec={'field': 'value'})
    examples.wait(name, lambda body: body['status']['good'] == 'good')


def problems_of(process: OperatorProcess) -> list[str]:
    return [
        entry['message']
        for entry in process.entries()
        if entry['severity'] not in ('info', 'debug')
    ]


def wait_problem(process: OperatorProcess, *words: str) -> str:
    """Wait for the message that has all these words in it, in any case of letters."""

    def find() -> list[str]:
        return [
            text
            for text in problems_of(process)
            if all(word.lower() in text.lower() for word in words)
        ]

    return wait_for(lambda: f'A message with {words} in:\n{process.tail()}', find)[0]


# Before the operator runs.


def test_script_that_does_not_import(tmp_path: pathlib.Path) -> None:
    (tmp_path / 'handlers.py').write_text('import kopf\nimport nonexistent_module\n')
    code, output = kopf('run', 'handlers.py', cwd=tmp_path)
    assert code != 0
    assert 'handlers.py' in output
    assert "No module named 'nonexistent_module'" in output


def test_script_with_a_syntax_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / 'handlers.py').write_text('import kopf\ndef broken(:\n')
    code, output = kopf('run', 'handlers.py', cwd=tmp_path)
    assert code != 0
    assert 'handlers.py' in output
    assert 'invalid syntax' in output


def test_script_that_is_not_there(tmp_path: pathlib.Path) -> None:
    code, output = kopf('run', 'absent.py', cwd=tmp_path)
    assert code != 0
    assert 'absent.py' in output


def test_module_that_is_not_there(tmp_path: pathlib.Path) -> None:
    code, output = kopf('run', '-m', 'absent_module', cwd=tmp_path)
    assert code != 0
    assert 'absent_module' in output


def test_unknown_option() -> None:
    code, output = kopf('run', '--nonsense')
    assert code == 2
    assert 'Traceback' not in output
    assert re.search('No such option.*--nonsense', output)


def test_handler_with_unknown_options(tmp_path: pathlib.Path) -> None:
    (tmp_path / 'handlers.py').write_text(
        "import kopf\n@kopf.on.create('kopfexamples', nonsense=1)\ndef fn(**_): pass\n"
    )
    code, output = kopf('run', 'handlers.py', cwd=tmp_path)
    assert code != 0
    assert 'nonsense' in output


# With the cluster.


def test_no_cluster(operator: StartOperator, plane: Plane) -> None:
    (port,) = free_ports(1)
    nowhere = Client(f'https://127.0.0.1:{port}', 'token', plane.client.ca)
    process = operator(GOOD, '--log-format=json', client=nowhere)
    wait_problem(process, f'127.0.0.1:{port}')
    if process.is_running():
        process.stop()
    assert process.count('Traceback (most recent call last)') == 0


def test_no_credentials(tmp_path: pathlib.Path) -> None:
    (tmp_path / 'handlers.py').write_text(GOOD)
    code, output = kopf(
        'run',
        'handlers.py',
        '--standalone',
        '-A',
        cwd=tmp_path,
        env={'HOME': str(tmp_path), 'KUBECONFIG': str(tmp_path / 'absent')},
    )
    assert code != 0
    assert re.search('credentials|kubeconfig|log in|login', output, re.IGNORECASE)


def test_wrong_credentials(operator: StartOperator, plane: Plane) -> None:
    process = operator(GOOD, '--log-format=json', client=plane.client.as_token('wrong'))
    wait_for(
        lambda: f'A message in {process.tail()}',
        lambda: re.search(
            'unauthorized|401|credentials', '\n'.join(problems_of(process)), re.IGNORECASE
        ),
    )
    if process.is_running():
        process.stop()


def test_selector_that_matches_nothing(operator: StartOperator, examples: ExampleObjects) -> None:
    script = f"{GOOD}\n@kopf.on.create('nonexistents')\ndef fn(**_): pass\n"
    process = operator(script, '--log-format=json')
    works(examples)
    wait_problem(process, 'nonexistents')
    assert len(problems_of(process)) == 1
    assert process.stop() == 0


def test_selector_that_is_ambiguous(
    operator: StartOperator, examples: ExampleObjects, plane: Plane
) -> None:
    manifests = '\n---\n'.join(
        AMBIGUOUS.format(group=group) for group in ('one.kopf.test', 'two.kopf.test')
    )
    apply(plane.client, manifests)
    try:
        script = f"{GOOD}\n@kopf.on.create('kopfambigs')\ndef fn(**_): pass\n"
        process = operator(script, '--log-format=json')
        works(examples)
        wait_problem(process, 'ambiguous', 'one.kopf.test', 'two.kopf.test')
        assert len(problems_of(process)) == 1
        assert process.stop() == 0
    finally:
        delete(plane.client, manifests)


def test_handler_with_a_wrong_signature(operator: StartOperator, examples: ExampleObjects) -> None:
    process = operator(
        f"{GOOD}\n@kopf.on.create('kopfexamples')\ndef wrong_fn(spec): pass\n", '--log-format=json'
    )
    examples.create('good', spec={})
    examples.wait(
        'good',
        lambda body: (
            body['status']['good'] == 'good' or 'wrong_fn' in str(body['metadata']['annotations'])
        ),
    )
    wait_problem(process, 'wrong_fn', 'unexpected keyword argument')
    assert process.stop() == 0


@pytest.mark.parametrize('result', ['object()', '{1, 2}', 'b"bytes"', '{"deep": [object()]}'])
def test_result_that_is_not_json(
    result: str, operator: StartOperator, examples: ExampleObjects
) -> None:
    script = f"""{GOOD}
@kopf.on.create('kopfexamples', id='unusual', when=lambda name, **_: name == 'unusual')
def unusual_fn(**_):
    return {result}
"""
    process = operator(script, '--log-format=json')
    examples.create('unusual', spec={})
    message = wait_problem(process, 'unusual', 'json')
    assert len(message.splitlines()) == 1
    works(examples)
    assert process.stop() == 0


def test_patch_that_the_api_refuses(operator: StartOperator, examples: ExampleObjects) -> None:
    script = f"""{GOOD}
@kopf.on.create('kopfexamples', when=lambda name, **_: name == 'unusual')
def unusual_fn(patch, **_):
    patch.metadata.labels['label'] = 'not a label!'
"""
    process = operator(script, '--log-format=json')
    examples.create('unusual', spec={})
    wait_problem(process, 'not a label!')
    works(examples)
    works(examples, 'good-too')
    assert process.stop() == 0


@pytest.mark.parametrize(
    'annotations',
    [
        {'kopf.zalando.org/good': '{"started": broken'},
        {'kopf.zalando.org/good': '[]'},
        {'kopf.zalando.org/good': '{"started": "yesterday", "retries": "many"}'},
        {'kopf.zalando.org/last-handled-configuration': '{"spec": broken'},
    ],
    ids=['not json', 'not a mapping', 'unusual values', 'last handled'],
)
def test_corrupt_annotations(
    annotations: dict[str, str], operator: StartOperator, examples: ExampleObjects
) -> None:
    """They count as absent: the object is handled from scratch, after a message about them."""
    process = operator(GOOD, '--log-format=json')
    examples.create('good-corrupt', spec={'field': 'value'}, metadata={'annotations': annotations})
    examples.wait('good-corrupt', lambda body: body['status']['good'] == 'good')
    works(examples, 'good-intact')
    found = [entry for entry in process.entries() if entry['severity'] not in ('info', 'debug')]
    assert process.stop() == 0
    assert len(found) == 1, found
    assert found[0]['object']['name'] == 'good-corrupt'


def test_error_in_a_filter(operator: StartOperator, examples: ExampleObjects) -> None:
    script = f"""{GOOD}
@kopf.on.create('kopfexamples', when=lambda name, **_: name == 'unusual' and 1 / 0)
def unusual_fn(**_):
    pass
"""
    process = operator(script, '--log-format=json')
    examples.create('unusual', spec={})
    wait_problem(process, 'division by zero')
    works(examples)
    assert process.stop() == 0


def test_object_that_disappears_while_handled(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    """A patch of an object that is gone is nothing to worry about."""
    script = f"""{GOOD}
import asyncio

@kopf.on.create('kopfexamples', when=lambda name, **_: name == 'short')
async def slow_fn(logger, **_):
    logger.info('Working.')
    await asyncio.sleep(1)
    return 'late'
"""
    process = operator(script, '--log-format=json')
    examples.create('short', spec={})
    process.wait_log('Working.')
    examples.delete('short')
    process.wait_log("Handler 'slow_fn' succeeded.")
    works(examples)
    assert process.stop() == 0
    assert problems_of(process) == []


@pytest.mark.parametrize('prefix', ['', 'async '], ids=['sync', 'async'])
@pytest.mark.parametrize(
    'outcome, words',
    [
        ('raise Mute()', ['failed with an exception', 'Mute: its text is not available']),
        ('raise TextOfNone()', ['failed with an exception', 'TextOfNone: its text is not']),
        (r"raise Exception('file \udcff')", ['failed with an exception', 'file \ufffd']),
        ('raise GeneratorExit("gone")', ['failed with an exception', 'gone']),
        ('raise asyncio.CancelledError()', ['failed with an exception', 'CancelledError()']),
        (
            "raise kopf.TemporaryError('boo', delay='5')",
            ['failed with an exception', 'The delay of TemporaryError', "a str: '5'"],
        ),
        (
            "raise kopf.TemporaryError('boo', delay=datetime.timedelta(seconds=5))",
            ['failed with an exception', 'The delay of TemporaryError', 'timedelta'],
        ),
    ],
)
def test_errors_that_are_hard_to_tell(
    prefix: str,
    outcome: str,
    words: list[str],
    operator: StartOperator,
    examples: ExampleObjects,
) -> None:
    """The handler is called as often as `retries=` says, and the log tells what has happened."""
    script = f"""{GOOD}
import asyncio
import datetime

class Mute(Exception):
    def __str__(self): raise RuntimeError('no text')

class TextOfNone(Exception):
    def __str__(self): return None

@kopf.on.create('kopfexamples', when=lambda name, **_: name == 'unusual', retries=2, backoff=0.1)
{prefix}def unusual_fn(logger, **_):
    logger.info('unusual_fn is called.')
    {outcome}
"""
    process = operator(script, '--log-format=json')
    examples.create('unusual', spec={})
    wait_problem(process, "Handler 'unusual_fn'", *words, 'will try again in 0.1 seconds')
    wait_problem(process, "Handler 'unusual_fn'", *words, 'it would exceed 2 retries')
    works(examples)
    assert process.stop() == 0
    assert process.count('unusual_fn is called.') == 2
    assert process.count('Throttling') == 0


@pytest.mark.parametrize(
    'value, stored, problem',
    [
        (r"os.fsdecode(b'report-\xff.txt')", 'report-\ufffd.txt', None),
        ('10**400', None, ['is not JSON-compatible', 'int 1000']),
        ('math.inf', None, ['is not JSON-compatible', 'float inf']),
    ],
    ids=['not utf-8', 'huge', 'infinite'],
)
def test_values_that_are_hard_to_pass_on(
    value: str,
    stored: str | None,
    problem: list[str] | None,
    operator: StartOperator,
    examples: ExampleObjects,
) -> None:
    """Kubernetes replaces what is not UTF-8, and refuses the rest; timers go on in any case."""
    script = f"""{GOOD}
import math
import os

def is_unusual(name, **_):
    return name == 'unusual'

@kopf.on.create('kopfexamples', id='returning', when=is_unusual)
def returning_fn(**_):
    return {{'value': {value}}}

@kopf.on.create('kopfexamples', id='patching', when=is_unusual)
def patching_fn(patch, **_):
    patch.status['patched'] = {value}

@kopf.timer('kopfexamples', id='ticking', when=is_unusual, interval=0.1)
def ticking_fn(patch, memo, **_):
    memo.ticks = memo.get('ticks', 0) + 1
    if memo.ticks == 2:
        patch.status['ticked'] = {value}
    if memo.ticks == 5:
        patch.status['survived'] = True
"""
    process = operator(script, '--log-format=json')
    examples.create('unusual', spec={})
    unusual = examples.wait('unusual', lambda body: body['status']['survived'] and handled(body))
    status = unusual['status']
    if problem is None:
        assert status['returning'] == {'value': stored}
        assert (status['patched'], status['ticked']) == (stored, stored)
        assert problems_of(process) == []
    else:
        wait_problem(process, "The result of handler 'returning'", "'value'", *problem)
        wait_problem(process, "The patch of handler 'patching'", "'status.patched'", *problem)
        wait_problem(process, "The patch of timer 'ticking'", "'status.ticked'", *problem)
        assert not {'returning', 'patched', 'ticked'} & set(status)
    works(examples)
    assert process.stop() == 0
    assert process.count('Throttling') == 0


def handled(body: Any) -> bool:
    return 'kopf.zalando.org/last-handled-configuration' in body['metadata']['annotations']


def test_events_that_are_hard_to_pass_on(
    operator: StartOperator, examples: ExampleObjects, plane: Plane, namespace: str
) -> None:
    """Texts of events never fail the handler."""
    script = r"""
import kopf
import os

class Mute(Exception):
    def __str__(self): raise RuntimeError('no text')

@kopf.on.create('kopfexamples', id='fn')
def fn(body, **_):
    kopf.info(body, reason='Found', message='file ' + os.fsdecode(b'\xff'))
    kopf.exception(body, reason='Failed', exc=Mute())
    kopf.info(body, reason='Soon', message='x', backoffs='never')
    return 'done'
"""
    process = operator(script, '--log-format=json')
    examples.create('some', spec={})
    examples.wait('some', lambda body: body['status']['fn'] == 'done')

    def posted() -> dict[str, str]:
        events = plane.client.get(f'/api/v1/namespaces/{namespace}/events')['items']
        messages = {event['reason']: event['message'] for event in events}
        return messages if {'Found', 'Failed'} <= set(messages) else {}

    messages = wait_for('The events', posted)
    assert messages['Found'] == 'file \ufffd'
    assert messages['Failed'].startswith('<Mute: its text is not available')
    wait_problem(process, 'The event about KopfExample some cannot be posted')
    assert process.stop() == 0

"""`kopf run` as users type it: scripts and modules, namespaces, the environment, the log."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable, Iterator

import pytest

from tests.support.examples import ExampleObjects, new_namespace, remove_namespace
from tests.support.operator_process import OperatorProcess, python_under_test
from tests.support.plane import Plane

StartOperator = Callable[..., OperatorProcess]

HANDLERS = """
import kopf

@kopf.on.create('kopfexamples')
def create_fn(logger, **_):
    logger.debug('Debugged.')
    logger.info('Informed.', extra={'mine': [1]})
    logger.warning('Warned.')
"""


def test_a_script_called_operator(
    operator: StartOperator, examples: ExampleObjects, tmp_path: pathlib.Path
) -> None:
    """The name of a module of Python; and what lies beside the script can be imported.

    Not by ``python -m kopf``: there, Python itself looks into the current folder first.
    """
    (tmp_path / 'beside.py').write_text('WORD = "neighbour"\n')
    path = tmp_path / 'operator.py'
    path.write_text(
        'import functools, beside\nfrom operator import itemgetter\n'
        + HANDLERS.replace("'Informed.'", "f'Informed by {beside.WORD}: {itemgetter(0)([5])}.'")
    )
    process = operator(path, python=python_under_test().with_name('kopf'))
    examples.create('obj')
    process.wait_log('Informed by neighbour: 5.')
    assert process.stop() == 0


def test_modules_and_several_scripts(
    operator: StartOperator, examples: ExampleObjects, tmp_path: pathlib.Path
) -> None:
    package = tmp_path / 'package'
    package.mkdir()
    (package / '__init__.py').touch()
    for path, name in (package / 'handlers.py', 'first'), (tmp_path / 'other.py', 'second'):
        path.write_text(HANDLERS.replace('create_fn', name))
    script = tmp_path / 'third.py'
    script.write_text(HANDLERS.replace('create_fn', 'third'))
    # They do not know of each other, and use the same names.
    startup = '\n@kopf.on.startup()\ndef configure(settings, **_):\n    print("Configured.")\n'
    fn = '\n@kopf.on.event("kopfexamples")\ndef event_fn(logger, **_):\n    logger.info("Seen.")\n'
    for path in package / 'handlers.py', tmp_path / 'other.py', script:
        path.write_text(path.read_text() + startup + fn)
    process = operator(
        script,
        str(tmp_path / 'other.py'),
        '-m',
        'package.handlers',
        env={'PYTHONPATH': str(tmp_path)},
    )
    examples.create('obj')
    for name in 'first', 'second', 'third':
        process.wait_log(f"Handler '{name}' succeeded.")
    process.wait_log('Seen.', count=3)
    assert process.count('Configured.') == 3
    assert process.stop() == 0


@pytest.fixture()
def namespaces(plane: Plane) -> Iterator[list[str]]:
    """One to be served, another one to be served, one to be left out."""
    prefix = new_namespace(plane.client, 'glob')
    names = [prefix, f'{prefix}-two', f'{prefix}-not']
    for name in names[1:]:
        plane.client.create('/api/v1/namespaces', {'metadata': {'name': name}})
    yield names
    for name in names:
        remove_namespace(plane.client, name)


@pytest.mark.parametrize('form', ['globs', 'names', 'environment', 'all'])
def test_namespaces(
    operator: StartOperator, plane: Plane, namespaces: list[str], form: str
) -> None:
    one, two, other = namespaces
    options = {
        'globs': ['-n', f'{one}*,!*-not'],
        'names': ['-n', one, '--namespace', two],
        'environment': [],
        'all': ['-A'],
    }[form]
    env = {'KOPF_RUN_NAMESPACE': f'{one}*,!*-not'} if form == 'environment' else {}
    process = operator(HANDLERS, *options, env=env)
    for name in namespaces:
        ExampleObjects(plane.client, name).create('obj')
    ExampleObjects(plane.client, other).create('last')
    for name in [one, two]:
        process.wait_log(f'[{name}/obj]', 'Informed.')
    if form == 'all':
        process.wait_log(f'[{other}/obj]', 'Informed.')
    else:
        assert process.count(f'[{other}/') == 0
    assert process.stop() == 0


@pytest.mark.parametrize(
    'options, seen',
    [
        ([], {'Informed.', 'Warned.'}),
        (['-v'], {'Debugged.', 'Informed.', 'Warned.'}),
        (['-d'], {'Debugged.', 'Informed.', 'Warned.'}),
        (['-q'], {'Warned.'}),
    ],
)
@pytest.mark.parametrize('by_environment', [False, True])
def test_verbosity_of_the_log(
    operator: StartOperator,
    examples: ExampleObjects,
    options: list[str],
    seen: set[str],
    by_environment: bool,
) -> None:
    names = {'-v': 'KOPF_RUN_VERBOSE', '-d': 'KOPF_RUN_DEBUG', '-q': 'KOPF_RUN_QUIET'}
    env = {names[option]: 'yes' for option in options} if by_environment else {}
    process = operator(HANDLERS, *([] if by_environment else options), env=env)
    examples.create('obj')
    process.wait_log('Warned.')
    assert {text for text in ('Debugged.', 'Informed.', 'Warned.') if process.count(text)} == seen
    assert process.stop() == 0


TIME = r'\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]'


@pytest.mark.parametrize(
    'options, line',
    [
        (['--log-format=full'], rf'{TIME} kopf.objects +\[INFO    \] \[NS/obj\] Informed\.'),
        (['--log-format=plain'], r'\[NS/obj\] Informed\.'),
        (['--log-format=plain', '--no-log-prefix'], r'Informed\.'),
    ],
)
def test_formats_of_the_log(
    operator: StartOperator,
    examples: ExampleObjects,
    namespace: str,
    options: list[str],
    line: str,
) -> None:
    process = operator(HANDLERS, *options)
    examples.create('obj')
    process.wait_log('Informed.')
    [found] = [text for text in process.lines() if 'Informed.' in text]
    assert re.fullmatch(line.replace('NS', namespace), found), found
    assert process.stop() == 0


@pytest.mark.parametrize(
    'options, prefix, key',
    [
        ([], '', 'object'),
        (['--log-prefix'], '[NS/obj] ', 'object'),
        (['--log-refkey=k8s-obj'], '', 'k8s-obj'),
    ],
)
def test_json_in_the_log(
    operator: StartOperator,
    examples: ExampleObjects,
    namespace: str,
    options: list[str],
    prefix: str,
    key: str,
) -> None:
    process = operator(HANDLERS, '--log-format=json', *options)
    uid = examples.create('obj')['metadata']['uid']
    process.wait_log('Warned.')
    # Each line is JSON, those of the engine too.
    entries = [json.loads(line) for line in process.lines()]
    assert all({'message', 'severity', 'timestamp'} <= set(entry) for entry in entries)
    [entry] = [entry for entry in entries if entry['message'].endswith('Informed.')]
    assert set(entry) == {'message', 'mine', 'timestamp', 'severity', key}
    assert entry['message'] == prefix.replace('NS', namespace) + 'Informed.'
    assert entry['severity'] == 'info' and entry['mine'] == [1]
    assert entry[key] == {
        'apiVersion': 'kopf.dev/v1',
        'kind': 'KopfExample',
        'name': 'obj',
        'namespace': namespace,
        'uid': uid,
    }
    [other] = [entry for entry in entries if entry['message'].endswith('Warned.')]
    assert other['severity'] == 'warn'
    assert process.stop() == 0


def test_the_format_by_the_environment(operator: StartOperator, examples: ExampleObjects) -> None:
    env = {'KOPF_RUN_LOG_FORMAT': 'json', 'KOPF_RUN_LOG_REFKEY': 'me'}
    process = operator(HANDLERS, env=env)
    examples.create('obj')
    process.wait_log('Warned.')
    assert any(entry.get('me', {}).get('name') == 'obj' for entry in process.entries())
    assert process.stop() == 0

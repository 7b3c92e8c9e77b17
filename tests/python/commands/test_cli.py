"""The command line, and the runner of it for tests."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import click.testing
import pytest

import kopf
from kopf import cli
from kopf._run import own_peer
from kopf.testing import KopfRunner
from tests.python import fake_native


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `kopf.run()` is called with."""
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr('kopf._run.operator.run', lambda **kwargs: calls.append(kwargs))
    monkeypatch.setattr('kopf.cli.configure', lambda **kwargs: calls.append(kwargs))
    for name in list(os.environ):
        if name.startswith('KOPF_'):
            monkeypatch.delenv(name)
    return calls


@pytest.fixture
def script(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(sys, 'path', list(sys.path))
    path = tmp_path / 'operator.py'
    path.write_text("import kopf, click\n"
                    "assert click.get_current_context().command.name == 'run'\n"
                    "@kopf.on.create('kopfexamples')\n"
                    "def fn(**_): pass\n")
    return path


def invoke(*args: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(cli.main, args)


def test_version() -> None:
    assert invoke('--version').output == 'Kopf version: 2.0.0\n'


def test_options(runs: list[dict[str, Any]], script: pathlib.Path) -> None:
    result = invoke('run', '-n', 'a', '--namespace', 'b*', '-v', '--log-format=JSON',
                    '--log-refkey=k', '--no-log-prefix', '--standalone', '-P', 'peer', '-p', '5',
                    '-L', 'http://:8080/', str(script))
    assert result.exit_code == 0, result.output
    logs, run = runs
    assert logs == {'debug': False, 'verbose': True, 'quiet': False, 'log_refkey': 'k',
                    'log_prefix': False, 'log_format': kopf.LogFormat.JSON}
    assert run['namespaces'] == ('a', 'b*') and run['clusterwide'] is False
    assert run['standalone'] is True and run['peering_name'] == 'peer' and run['priority'] == 5
    assert run['liveness_endpoint'] == 'http://:8080/'
    assert len(kopf.get_default_registry()._changing.get_all_handlers()) == 1


def test_defaults(runs: list[dict[str, Any]], script: pathlib.Path) -> None:
    assert invoke('run', '-A', '--dev', str(script)).exit_code == 0
    logs, run = runs
    assert logs['log_format'] is kopf.LogFormat.FULL and logs['log_prefix'] is None
    assert run['clusterwide'] is True and run['namespaces'] == () and run['priority'] == 666
    assert run['standalone'] is None and run['peering_name'] is None


def test_environment(runs: list[dict[str, Any]], script: pathlib.Path,
                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('KOPF_RUN_NAMESPACE', 'x')
    monkeypatch.setenv('KOPF_RUN_PEERING', 'peer')
    monkeypatch.setenv('KOPF_RUN_QUIET', 'true')
    monkeypatch.setenv('KOPF_RUN_LOG_FORMAT', 'plain')
    assert invoke('run', str(script)).exit_code == 0
    logs, run = runs
    assert 'x' in run['namespaces'] and run['peering_name'] == 'peer'
    assert logs['quiet'] is True and logs['log_format'] is kopf.LogFormat.PLAIN


def test_modules(runs: list[dict[str, Any]], script: pathlib.Path,
                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(script.parent))
    script.rename(script.with_name('my_handlers.py'))
    assert invoke('run', '-A', '-m', 'my_handlers').exit_code == 0
    assert len(kopf.get_default_registry()._changing.get_all_handlers()) == 1


@pytest.mark.parametrize('args', [['run', '-A', '-n', 'x'], ['run', '--unknown'], ['unknown'],
                                  ['run', '--log-format', 'xml'], ['freeze'], ['resume']])
def test_wrong_usage(runs: list[dict[str, Any]], args: list[str]) -> None:
    result = invoke(*args)
    assert result.exit_code == 2 and 'Usage:' in result.output
    assert not any('clusterwide' in run for run in runs)


@pytest.mark.parametrize('args', [
    ['freeze', '-P', 'x', '-t', '60', '--dev', '-m', 'why', '-n', 'ns', '-i', 'me', '-p', '1'],
    ['resume', '-P', 'x', '-A', '-i', 'me']])
def test_peering_commands(runs: list[dict[str, Any]], args: list[str]) -> None:
    assert invoke(*args).exit_code == 0
    [run] = [run for run in runs if 'clusterwide' in run]
    freezing = args[0] == 'freeze'
    assert run['identity'] == 'me' and run['settings'].peering.name == 'x'
    assert run['_command'] == (60 if freezing else 0)
    assert run['settings'].peering.priority == (666 if freezing else 0)
    assert run['clusterwide'] is not freezing
    assert list(run['namespaces']) == (['ns'] if freezing else [])


def test_identities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv('POD_ID', raising=False)
    person = own_peer.detect_own_id(manual=True)
    assert person == own_peer.detect_own_id(manual=True) and '@' in person and '/' not in person
    first, second = own_peer.detect_own_id(), own_peer.detect_own_id()
    assert first.startswith(f'{person}/') and first != second
    monkeypatch.setenv('POD_ID', 'pod-1')
    assert own_peer.detect_own_id() == own_peer.detect_own_id(manual=True) == 'pod-1'


@pytest.mark.parametrize('source, message', [
    ("import kopf\nimport no_such_module\n",
     "ModuleNotFoundError: No module named 'no_such_module' ({path}, line 2)"),
    ("import kopf\n\n1/0\n", "ZeroDivisionError: division by zero ({path}, line 3)"),
    ("def x(:\n", "SyntaxError: invalid syntax ({path}, line 1)"),
    ("import kopf\nkopf.on.create()(lambda **_: None)\n",
     "TypeError: Unspecific resource: no name is given. ({path}, line 2)"),
])
def test_script_that_does_not_load(tmp_path: pathlib.Path, source: str, message: str) -> None:
    path = tmp_path / 'handlers.py'
    path.write_text(source)
    process = run_kopf('run', '-A', str(path))
    assert process.returncode == 1
    assert process.stderr.strip() == \
        f"Error: Cannot load the handlers: {message.format(path=path)}"


def test_script_that_does_not_exist() -> None:
    process = run_kopf('run', '-A', '/no/such/file.py')
    assert process.returncode == 1
    assert process.stderr.count('\n') == 1 and '/no/such/file.py' in process.stderr


def run_kopf(*args: str) -> subprocess.CompletedProcess[str]:
    folder = str(pathlib.Path(kopf.__file__).parent.parent)
    environment = {**os.environ, 'PYTHONPATH': folder}
    return subprocess.run([sys.executable, '-m', 'kopf', *args], capture_output=True, text=True,
                          env=environment, check=False)


def test_runner(script: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_native.install(monkeypatch)
    registry, settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
    with KopfRunner(['run', '-A', '-v', str(script)], timeout=10, registry=registry,
                    settings=settings) as runner:
        pass
    assert runner.exit_code == 0 and runner.exception is None
    assert len(registry._changing.get_all_handlers()) == 1
    assert isinstance(runner.output, str)


def test_runner_raises_errors(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, 'path', list(sys.path))
    monkeypatch.setattr(sys, 'excepthook', sys.excepthook)
    path = tmp_path / 'handlers.py'
    path.write_text('1/0')
    with pytest.raises(ZeroDivisionError), KopfRunner(['run', '-A', str(path)], timeout=10):
        pass
    with KopfRunner(['run', '-A', str(path)], timeout=10, reraise=False) as runner:
        pass
    assert runner.exit_code == 1 and isinstance(runner.exception, ZeroDivisionError)


def test_the_command_of_the_cluster_loads_no_parser() -> None:
    script = (
        'import sys; from kopf import _command; sys.argv[1:] = ["cluster", "--help"]\n'
        'try: _command.main()\n'
        'except SystemExit as exit: assert not exit.code, exit.code\n'
        'assert "click" not in sys.modules and "kopf.cli" not in sys.modules, sorted(sys.modules)'
    )
    done = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert '--data-dir' in done.stdout

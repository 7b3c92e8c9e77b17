"""`kopf dev` and `kopf cluster`, as processes."""
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

CRD = (pathlib.Path(__file__).parents[3] / 'examples/python/01-quickstart/crd.yaml').read_text()

OBJECT = '''
apiVersion: kopf.dev/v1
kind: KopfExample
metadata:
  name: one
spec: {}
'''

HANDLERS = '''
import os
import kopf

assert os.path.exists(os.environ['KUBECONFIG'])

@kopf.on.create('kopfexamples')
@kopf.on.resume('kopfexamples')
def handle(logger, **_):
    logger.info("the first version")
'''


class Process:
    """`kopf …` with its output, line by line."""

    def __init__(self, *args: str, folder: pathlib.Path) -> None:
        env = {name: value for name, value in os.environ.items() if not name.startswith('KOPF_')}
        self.process = subprocess.Popen(
            [sys.executable, '-m', 'kopf', *args], cwd=folder, env={**env, 'KUBECONFIG': 'nowhere'},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines: list[str] = []
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stdout:
            for line in stdout:
                with self.changed:
                    self.lines.append(line)
                    self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def wait_line(self, part: str) -> str:
        def found() -> str | None:
            return next((line for line in self.lines if part in line), None)

        with self.changed:
            self.changed.wait_for(lambda: found() or self.process.poll() is not None, timeout=30)
            line = found()
        assert line is not None, f'no {part!r} in:\n{"".join(self.lines)}'
        return line

    def end(self, signum: int = signal.SIGTERM) -> int:
        self.process.send_signal(signum)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(timeout=30)
        self.thread.join(timeout=30)
        return code


@pytest.fixture()
def kopf(tmp_path):
    started: list[Process] = []

    def start(*args: str) -> Process:
        started.append(Process(*args, folder=tmp_path))
        return started[-1]

    yield start
    for process in started:
        process.process.kill()
        process.wait()


@pytest.fixture()
def project(tmp_path):
    (tmp_path / 'handlers.py').write_text(HANDLERS)
    (tmp_path / 'crd.yaml').write_text(CRD)
    (tmp_path / 'obj.yaml').write_text(OBJECT)
    return tmp_path


StartKopf = Callable[..., Process]


def test_an_operator_is_run_and_restarted(kopf: StartKopf, project):
    process = kopf('dev', 'handlers.py', '-f', 'crd.yaml', '-f', 'obj.yaml')
    process.wait_line('listens on https://127.0.0.1:')
    assert 'default/one' in process.wait_line('the first version')
    (project / 'handlers.py').write_text(HANDLERS.replace('first', 'second'))
    process.wait_line('Changed: handlers.py')
    process.wait_line('the second version')
    assert process.end() == 0


def test_manifests_are_applied_again(kopf: StartKopf, project):
    process = kopf('dev', 'handlers.py', '-f', 'crd.yaml', '-f', 'obj.yaml')
    process.wait_line('the first version')
    (project / 'obj.yaml').write_text(OBJECT.replace('one', 'another'))
    process.wait_line('default/another')
    (project / 'obj.yaml').write_text(OBJECT.replace('kopf.dev/v1', 'kopf.dev/v9'))
    assert 'obj.yaml: no such kind' in process.wait_line('Error:')
    assert process.end(signal.SIGINT) == 0


def test_a_broken_file_can_be_repaired(kopf: StartKopf, project):
    (project / 'handlers.py').write_text('import nope_nope')
    process = kopf('dev', 'handlers.py', '-f', 'crd.yaml', '-f', 'obj.yaml')
    process.wait_line("No module named 'nope_nope'")
    process.wait_line('The operator has ended with the code 1.')
    (project / 'handlers.py').write_text(HANDLERS)
    process.wait_line('the first version')
    assert process.end() == 0


@pytest.mark.parametrize('code', [0, 7])
def test_a_command_beside_the_operator(kopf: StartKopf, project, code):
    process = kopf('dev', 'handlers.py', '-f', 'crd.yaml', '--exec',
                   f'test -s "$KUBECONFIG" && echo "it is there" && exit {code}')
    process.wait_line('it is there')
    assert process.wait() == code


@pytest.mark.parametrize('args, message', [
    ([], 'Which handlers?'),
    (['absent.py'], 'absent.py'),
    (['handlers.py', '-f', 'absent.yaml'], 'absent.yaml'),
    (['handlers.py', '-f', 'obj.yaml'], 'obj.yaml: no such kind is served: KopfExample'),
])
def test_wrong_arguments_are_named(kopf: StartKopf, project, args, message):
    process = kopf('dev', *args)
    assert process.wait() in (1, 2)
    assert message in ''.join(process.lines)


@pytest.mark.parametrize('signum', [signal.SIGINT, signal.SIGTERM])
def test_a_cluster_in_the_foreground(kopf: StartKopf, project, signum):
    process = kopf('cluster', '--kubeconfig', 'kubeconfig', '-f', 'crd.yaml', '-f', 'obj.yaml')
    process.wait_line('listens on https://127.0.0.1:')
    process.wait_line('export KUBECONFIG=kubeconfig')
    assert (project / 'kubeconfig').stat().st_mode & 0o777 == 0o600
    process.wait_line('Ctrl-C')
    assert process.end(signum) == 0
    assert 'Aborted' not in ''.join(process.lines)


def test_a_cluster_is_kept_in_a_folder(kopf: StartKopf, project):
    first = kopf('cluster', '--data-dir', 'data', '-f', 'crd.yaml', '-f', 'obj.yaml')
    address = first.wait_line('listens on')
    second = kopf('cluster', '--data-dir', 'data')
    assert second.wait() == 1
    assert 'data' in ''.join(second.lines)
    first.process.kill()
    first.wait()
    # The kind is known, or the object could not be applied; the address is the same.
    third = kopf('cluster', '--data-dir', 'data', '-f', 'obj.yaml')
    assert third.wait_line('listens on') == address
    assert third.end() == 0


@pytest.mark.parametrize('args, message', [
    (['--nope'], "unexpected argument '--nope'"),
    (['-f', 'absent.yaml'], 'cannot read absent.yaml'),
    (['-f', 'obj.yaml'], 'obj.yaml: no such kind is served'),
    (['--port', '99999'], '99999'),
])
def test_a_cluster_with_wrong_arguments(kopf: StartKopf, project, args, message):
    process = kopf('cluster', *args)
    assert process.wait() in (1, 2)
    assert message in ''.join(process.lines)


OTHER_KUBECONFIG = 'apiVersion: v1\nkind: Config\ncurrent-context: production\n'


@pytest.mark.parametrize('command, running', [
    (['cluster'], 'Ctrl-C'),
    (['dev', 'handlers.py', '-f', 'crd.yaml', '-f', 'obj.yaml'], 'the first version'),
])
def test_only_own_kubeconfigs_are_overwritten(kopf: StartKopf, project, command, running):
    """The file may be somebody's only way to a real cluster."""
    path = project / 'config'
    path.write_text(OTHER_KUBECONFIG)
    process = kopf(*command, '--kubeconfig', 'config')
    assert process.wait() == 1
    assert 'Error: the file config exists, and kopf did not write it.' in ''.join(process.lines)
    assert path.read_text() == OTHER_KUBECONFIG

    path.unlink()
    addresses = []
    for _ in range(2):
        process = kopf(*command, '--kubeconfig', 'config')
        address = process.wait_line('listens on ').split()[-1]
        process.wait_line('export KUBECONFIG=config')
        assert f'server: {address}' in path.read_text()
        assert path.stat().st_mode & 0o777 == 0o600
        process.wait_line(running)
        assert process.end() == 0
        addresses.append(address)
    assert addresses[0] != addresses[1]
    assert [file.name for file in project.iterdir() if file.name.startswith('config')] == ['config']

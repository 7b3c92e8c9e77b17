"""An operator under test: a separate process with its log in a file.

The tests see what an operator does only by its log and by the cluster, never by its memory. So the
same tests run on any implementation that has the same command line.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
from collections.abc import Mapping
from typing import Any

from tests.support.client import PATIENCE_SECONDS, wait_for
from tests.support.processes import die_with_parent

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def python_under_test() -> pathlib.Path:
    """The interpreter with the package under test: that of ``make build``, or $KOPF_PYTHON."""
    override = os.environ.get('KOPF_PYTHON')
    return pathlib.Path(override) if override else REPOSITORY / '.venv' / 'bin' / 'python'


class OperatorProcess:
    """``python -m kopf …``, or another program with the same command line, with its output in a
    file. When it has ended, it can be started again, with the same log.
    """

    def __init__(
        self,
        program: pathlib.Path,
        *args: str,
        log: pathlib.Path,
        env: Mapping[str, str] | None = None,
        cwd: pathlib.Path | None = None,
    ) -> None:
        as_module = ['-m', 'kopf'] if program.name.startswith('python') else []
        self.command = [str(program), *as_module, *args]
        self.log = log
        self.cwd = cwd or log.parent
        self.env = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(('KOPF_', 'PYTEST_', 'KUBE'))
            },
            'PYTHONDONTWRITEBYTECODE': '1',
            'PYTHONUNBUFFERED': '1',
            **(env or {}),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> OperatorProcess:
        assert not self.is_running(), 'The previous process still runs.'
        with self.log.open('ab') as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.cwd,
                env=self.env,
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        return self

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self, *, timeout_seconds: float = 20) -> int:
        """Send SIGTERM, and return the exit code. The test fails if it does not end in time."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.wait(timeout_seconds=timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(
                f'Not ended in {timeout_seconds} s after SIGTERM; its log:\n{self.tail()}'
            )

    def wait(self, *, timeout_seconds: float = PATIENCE_SECONDS) -> int:
        """Wait until it ends by itself, and return its exit code."""
        assert self.process is not None
        return self.process.wait(timeout_seconds)

    def kill(self) -> None:
        """Send SIGKILL. This does nothing if the process has ended already."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def text(self) -> str:
        return self.log.read_text(errors='replace') if self.log.exists() else ''

    def lines(self) -> list[str]:
        return self.text().splitlines()

    def entries(self) -> list[dict[str, Any]]:
        """The parsed log lines of ``--log-format=json``, without those that are not JSON."""
        return [
            entry
            for line in self.lines()
            if line.startswith('{')
            if (entry := parse_json(line)) is not None
        ]

    def count(self, *parts: str) -> int:
        """How many log lines contain all these parts."""
        return sum(all(part in line for part in parts) for line in self.lines())

    def wait_log(
        self, *parts: str, count: int = 1, timeout_seconds: float = PATIENCE_SECONDS
    ) -> None:
        """Wait for this number of log lines that contain all these parts."""

        def seen() -> bool:
            ended = not self.is_running()
            if self.count(*parts) >= count:
                return True
            assert not ended, f'The operator has ended without logging {parts!r}:\n{self.tail()}'
            return False

        wait_for(
            lambda: f'{count} log lines with {parts!r} in:\n{self.tail()}',
            seen,
            timeout_seconds=timeout_seconds,
        )

    def tail(self, lines: int = 60) -> str:
        return '\n'.join(self.lines()[-lines:])


def parse_json(line: str) -> dict[str, Any] | None:
    try:
        return json.loads(line)
    except ValueError:
        return None

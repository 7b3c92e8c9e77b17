"""Runs operators as separate processes, on an embedded cluster in this process.

Used by timers.py and scale.py. The kernel reports what an operator costs; the operator's own
metrics show how far it is.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import pathlib
import socket
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from kopf.testing import Cluster

from .peers.processes import OperatorProcess

Samples = dict[str, float]


@contextlib.contextmanager
def running(
    script: pathlib.Path, env: dict[str, str] | None = None
) -> Iterator[tuple[OperatorProcess, Callable[[], Samples]]]:
    """Start ``kopf run``; yield the process and a function that reads its metrics."""
    with socket.socket() as listener:
        listener.bind(('localhost', 0))
        address = f'http://localhost:{listener.getsockname()[1]}'
    options = ['run', str(script), '-n', 'default', '--standalone', '--quiet']
    operator = OperatorProcess(
        [sys.executable, '-m', 'kopf', *options, f'--liveness={address}/healthz'],
        {**os.environ, **(env or {})},
        script.parent / 'operator.log',
    )
    try:
        yield operator, lambda: fetch_metrics(f'{address}/metrics')
    finally:
        operator.stop()


def fetch_metrics(address: str) -> Samples:
    """Return all samples by their names with labels; none if the operator does not answer."""
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return {}
    samples = (line.rsplit(' ', 1) for line in lines if line and not line.startswith('#'))
    return {name: float(value) for name, value in samples}


def wait_until(
    operator: OperatorProcess, metrics: Callable[[], Samples], done: Callable[[Samples], bool]
) -> None:
    while not done(metrics()):
        operator.check()
        time.sleep(0.2)


def wait_until_idle(operator: OperatorProcess) -> float:
    """Wait until the operator does nothing; return its CPU seconds until then."""
    before, now = -1.0, operator.cpu()
    while now - before > 0.02:
        time.sleep(1)
        before, now = now, operator.cpu()
    return now


def create(cluster: Cluster, path: str, bodies: Iterator[dict[str, Any]]) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        for _ in threads.map(lambda body: cluster.request('POST', path, body), bodies):
            pass

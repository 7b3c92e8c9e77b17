"""Processes and ports: what the control plane, the embedded cluster and the operators under test
need to start and to end.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from tests.support.client import until


def die_with_parent() -> Callable[[], None]:
    """A function for ``preexec_fn``: the kernel kills the child when its parent dies."""
    if not sys.platform.startswith('linux'):
        return lambda: None
    libc, pr_set_pdeathsig = ctypes.CDLL(None), 1
    return lambda: libc.prctl(pr_set_pdeathsig, signal.SIGKILL)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(('127.0.0.1', 0))
        return [sock.getsockname()[1] for sock in sockets]


def start_ticks(pid: int) -> int | None:
    """When the process has started, or None if it does not run. It tells a process from a later one
    with the same pid.
    """
    try:
        stat = pathlib.Path(f'/proc/{pid}/stat').read_text()
    except OSError:
        return None
    state, *rest = stat.rpartition(')')[2].split()
    return None if state == 'Z' else int(rest[18])


def is_alive(entry: dict[str, Any]) -> bool:
    return entry['started'] is not None and start_ticks(entry['pid']) == entry['started']


def terminate(entry: dict[str, Any]) -> None:
    """End a process by SIGTERM, and by SIGKILL if that does not help. It need not be our child."""
    for number in signal.SIGTERM, signal.SIGKILL:
        if not is_alive(entry):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(entry['pid'], number)
        for _ in until(5.0, 0.05):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(entry['pid'], os.WNOHANG)
            if not is_alive(entry):
                return

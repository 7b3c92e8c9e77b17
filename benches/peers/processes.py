"""Starts, measures (by ``/proc``) and stops the process tree of the operator under test.

Used by phases.py and benches/embedded.py. Nothing here knows about Kubernetes.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time

TICKS_PER_SECOND = os.sysconf('SC_CLK_TCK')


class OperatorProcess:
    """One running operator, with its children."""

    def __init__(self, command: list[str], env: dict[str, str], logfile: pathlib.Path) -> None:
        self.started = time.time()
        with open(logfile, 'ab') as output:
            self._process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=logfile.parent,
            )

    def pids(self) -> list[int]:
        return process_tree(self._process.pid)

    def cpu(self) -> float:
        return cpu_seconds(*self.pids())

    def rss(self) -> float:
        return memory_mib('VmRSS', *self.pids())

    def peak_rss(self) -> float:
        return memory_mib('VmHWM', *self.pids())

    def check(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f'the operator exited with {self._process.returncode}')

    def stop(self) -> None:
        started = {pid: start_ticks(pid) for pid in self.pids()}
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        for pid, ticks in started.items():
            if ticks is not None and start_ticks(pid) == ticks:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait(10)


def process_tree(pid: int) -> list[int]:
    """Return the process and all its living descendants."""
    found = [pid]
    for parent in found:
        for task in pathlib.Path(f'/proc/{parent}/task').glob('*/children'):
            with contextlib.suppress(OSError):
                found.extend(int(child) for child in task.read_text().split())
    return found


def start_ticks(pid: int) -> int | None:
    """Return when the process started, to detect a reused pid; None if it does not run."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields and fields[0] != 'Z' else None


def cpu_seconds(*pids: int) -> float:
    """Return user and system time, including children that ended and were awaited."""
    ticks = sum(sum(map(int, fields[11:15])) for pid in pids if (fields := stat_fields(pid)))
    return ticks / TICKS_PER_SECOND


def stat_fields(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` from the state on; none if the process is gone."""
    try:
        return pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    except OSError:
        return []


def memory_mib(field: str, *pids: int) -> float:
    """Return ``VmRSS`` or ``VmHWM``, summed over the processes."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            status = pathlib.Path(f'/proc/{pid}/status').read_text()
            match = re.search(rf'^{field}:\s+(\d+) kB', status, re.MULTILINE)
            total += int(match[1]) if match else 0
    return total / 1024


def socket_count(*pids: int) -> int:
    """Count the open network sockets, without socket pairs inside the process."""
    total = 0
    for pid in pids:
        network = network_inodes(pid)
        with contextlib.suppress(OSError):
            for descriptor in os.scandir(f'/proc/{pid}/fd'):
                with contextlib.suppress(OSError):
                    match = re.fullmatch(r'socket:\[(\d+)\]', os.readlink(descriptor.path))
                    total += match is not None and match[1] in network
    return total


def network_inodes(pid: int) -> set[str]:
    inodes: set[str] = set()
    for table in 'tcp', 'tcp6', 'udp', 'udp6':
        with contextlib.suppress(OSError):
            lines = pathlib.Path(f'/proc/{pid}/net/{table}').read_text().splitlines()[1:]
            inodes.update(line.split()[9] for line in lines)
    return inodes

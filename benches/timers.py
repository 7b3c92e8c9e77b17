"""``python -m benches.timers``: what timers cost while they wait, and after they were called.

    python -m benches.timers --n 50000                  # Linux; 6 minutes; needs an idle machine
    python -m benches.timers --n 2000 --idle-seconds 5  # to see that all works

One object has one timer. The cluster is the embedded one, in this process; the operator is a
process of its own, and its memory and its time are those which the kernel tells. All figures are
differences from the same operator without objects. It ends with an error if they are too high.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator

from kopf.testing import Cluster

from .peers.processes import OperatorProcess

PROJECT = pathlib.Path(__file__).resolve().parents[1]
CRDS = PROJECT / 'tests' / 'controlplane' / 'manifests' / 'crds.yaml'
RESOURCE = '/apis/kopf.dev/v1/namespaces/default/kopfexamples'

#: What a timer may cost.
BYTES_PER_TIMER = 1024
CORE_PERCENT = 1.0

OPERATOR = """
import os
import kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False

@kopf.timer('kopfexamples', initial_delay=float(os.environ['INITIAL_DELAY']), interval=36000)
{kind} timer_fn(spec, **_):
    assert spec['field'] == 'value'
"""


@dataclasses.dataclass(frozen=True)
class Figures:
    """One operator that has come to rest."""

    rss_mib: float
    peak_mib: float
    core_percent: float

    def bytes_per_timer(self, without: Figures, n: int) -> float:
        return (self.rss_mib - without.rss_mib) * 2**20 / n


class TimersBench:
    """The cluster with the objects, and the operators on it, one after another."""

    def __init__(self, cluster: Cluster, folder: pathlib.Path, idle_seconds: float) -> None:
        self._cluster = cluster
        self._folder = folder
        self._idle_seconds = idle_seconds

    def create(self, n: int) -> None:
        def create_one(number: int) -> None:
            body = {
                'apiVersion': 'kopf.dev/v1',
                'kind': 'KopfExample',
                'metadata': {'name': f'timed-{number:06}'},
                'spec': {'field': 'value'},
            }
            self._cluster.request('POST', RESOURCE, body)

        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            list(threads.map(create_one, range(n)))

    def measure(self, kind: str, *, objects: int, calls: int) -> Figures:
        """An operator from its start until nothing is left to do, and for a while after that."""
        initial_delay = 0 if calls else 36000
        with self._running(kind, initial_delay) as (operator, metrics):
            while True:
                operator.check()
                seen = metrics()
                called = seen.get('kopf_handler_duration_seconds_count', 0)
                if seen.get('kopf_queue_objects', 0) >= objects and called >= calls:
                    break
                time.sleep(0.5)
            cpu = busy = operator.cpu()
            while busy is not None:  # until it is at rest: what was called is put away
                time.sleep(1)
                cpu, before = operator.cpu(), cpu
                busy = cpu if cpu - before > 0.02 else None
            started = time.monotonic()
            time.sleep(self._idle_seconds)
            spent = (operator.cpu() - cpu) / (time.monotonic() - started)
            return Figures(operator.rss(), operator.peak_rss(), 100 * spent)

    @contextlib.contextmanager
    def _running(self, kind: str, initial_delay: float) -> Iterator[tuple[OperatorProcess, object]]:
        with socket.socket() as listener:
            listener.bind(('localhost', 0))
            address = f'http://localhost:{listener.getsockname()[1]}'
        script = self._folder / 'timers.py'
        script.write_text(OPERATOR.format(kind=kind))
        options = ['run', str(script), '-n', 'default', '--standalone', '--quiet']
        operator = OperatorProcess(
            [sys.executable, '-m', 'kopf', *options, f'--liveness={address}/healthz'],
            {**os.environ, 'INITIAL_DELAY': str(initial_delay)},
            self._folder / 'operator.log',
        )
        try:
            yield operator, lambda: fetch_metrics(f'{address}/metrics')
        finally:
            operator.stop()


def fetch_metrics(address: str) -> dict[str, float]:
    """The samples of timers and of objects at rest by their names; none if nobody answers."""
    wanted = {
        'kopf_handler_duration_seconds_count{handler="timer_fn",kind="timer"}',
        'kopf_queue_objects{state="idle"}',
    }
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return {}
    samples = (line.rsplit(' ', 1) for line in lines if not line.startswith('#'))
    return {name.split('{')[0]: float(value) for name, value in samples if name in wanted}


def main() -> None:
    parser = argparse.ArgumentParser(prog='python -m benches.timers', description=__doc__)
    parser.add_argument('--n', type=int, default=50000, help='how many objects [50000]')
    parser.add_argument('--idle-seconds', type=float, default=30.0, help='the measured time [30]')
    args = parser.parse_args()
    too_high = False
    with (
        tempfile.TemporaryDirectory(prefix='timers-') as folder,
        Cluster(manifests=[CRDS], workloads=False) as cluster,
    ):
        bench = TimersBench(cluster, pathlib.Path(folder), args.idle_seconds)
        without = bench.measure('def', objects=0, calls=0)
        print(f'without objects: {without.rss_mib:.1f} MiB', flush=True)
        bench.create(args.n)
        print(f'{"":32} {"per timer":>10} {"resident":>10} {"peak":>10} {"core":>8}', flush=True)
        for title, kind, calls in (
            ('first start, waiting', 'def', 0),
            ('waiting', 'def', 0),
            ('called once, in threads', 'def', args.n),
            ('called once, async', 'async def', args.n),
        ):
            seen = bench.measure(kind, objects=args.n, calls=calls)
            size = seen.bytes_per_timer(without, args.n)
            print(
                f'{title:32} {size:8.0f} B {seen.rss_mib:6.1f} MiB {seen.peak_mib:6.1f} MiB'
                f' {seen.core_percent:6.2f} %',
                flush=True,
            )
            too_high |= size > BYTES_PER_TIMER or seen.core_percent > CORE_PERCENT
    if too_high:
        sys.exit(f'More than {BYTES_PER_TIMER} B per timer, or than {CORE_PERCENT} % of a core.')


if __name__ == '__main__':
    main()

"""``python -m benches.timers``: measures what timers cost while they wait, and after a call.

    python -m benches.timers --n 50000                  # Linux; 6 minutes; needs an idle machine
    python -m benches.timers --n 2000 --idle-seconds 5  # a quick check of the benchmark

Each object has one timer. The embedded cluster runs in this process; the operator is a separate
process, and the kernel reports its memory and CPU time. All figures are differences from the same
operator without objects. The command fails if they are too high.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import tempfile
import time

from kopf.testing import Cluster

from .embedded import create, running, wait_until, wait_until_idle

PROJECT = pathlib.Path(__file__).resolve().parents[1]
CRDS = PROJECT / 'tests' / 'controlplane' / 'manifests' / 'crds.yaml'
RESOURCE = '/apis/kopf.dev/v1/namespaces/default/kopfexamples'

CALLED = 'kopf_handler_duration_seconds_count{handler="timer_fn",kind="timer"}'
IDLE = 'kopf_queue_objects{state="idle"}'

#: The limits per timer, and for all timers together.
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
    """One idle operator."""

    rss_mib: float
    peak_mib: float
    core_percent: float

    def bytes_per_timer(self, without: Figures, n: int) -> float:
        return (self.rss_mib - without.rss_mib) * 2**20 / n


class TimersBench:
    """The cluster with the objects, and the operators on it, one at a time."""

    def __init__(self, cluster: Cluster, folder: pathlib.Path, idle_seconds: float) -> None:
        self._cluster = cluster
        self._folder = folder
        self._idle_seconds = idle_seconds

    def create(self, n: int) -> None:
        bodies = (
            {
                'apiVersion': 'kopf.dev/v1',
                'kind': 'KopfExample',
                'metadata': {'name': f'timed-{number:06}'},
                'spec': {'field': 'value'},
            }
            for number in range(n)
        )
        create(self._cluster, RESOURCE, bodies)

    def measure(self, kind: str, *, objects: int, calls: int) -> Figures:
        """Run an operator until nothing is left to do, then measure it for a while."""
        script = self._folder / 'timers.py'
        script.write_text(OPERATOR.format(kind=kind))
        with running(script, {'INITIAL_DELAY': '0' if calls else '36000'}) as (operator, metrics):
            wait_until(
                operator,
                metrics,
                lambda seen: seen.get(IDLE, -1) >= objects and seen.get(CALLED, 0) >= calls,
            )
            cpu = wait_until_idle(operator)  # the calls are finished, and their memory is freed
            started = time.monotonic()
            time.sleep(self._idle_seconds)
            spent = (operator.cpu() - cpu) / (time.monotonic() - started)
            return Figures(operator.rss(), operator.peak_rss(), 100 * spent)


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

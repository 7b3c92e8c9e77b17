"""``python -m benches.timers``: what timers cost while they wait, and after they were called.

    python -m benches.timers --n 50000                  # Linux; 6 minutes; needs an idle machine
    python -m benches.timers --n 2000 --idle-seconds 5  # to see that all works

One object has one timer. The cluster is the embedded one, in this process; the operator is a
process of its own, and its memory and its time are those which the kernel tells. All figures are
differences from the same operator without objects. It ends with an error if they are too high.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import tempfile
import time

from kopf.testing import Cluster

from .embedded import create, rest, running, wait_until

PROJECT = pathlib.Path(__file__).resolve().parents[1]
CRDS = PROJECT / 'tests' / 'controlplane' / 'manifests' / 'crds.yaml'
RESOURCE = '/apis/kopf.dev/v1/namespaces/default/kopfexamples'

CALLED = 'kopf_handler_duration_seconds_count{handler="timer_fn",kind="timer"}'
IDLE = 'kopf_queue_objects{state="idle"}'

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
        """An operator from its start until nothing is left to do, and for a while after that."""
        script = self._folder / 'timers.py'
        script.write_text(OPERATOR.format(kind=kind))
        with running(script, {'INITIAL_DELAY': '0' if calls else '36000'}) as (operator, metrics):
            wait_until(
                operator,
                metrics,
                lambda seen: seen.get(IDLE, -1) >= objects and seen.get(CALLED, 0) >= calls,
            )
            cpu = rest(operator)  # what was called is put away by then
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

"""``python -m benches.scale``: does the cost per object depend on the number of objects?

    python -m benches.scale                                  # Linux; an idle machine; 3 minutes
    python -m benches.scale --sizes 1000,2000 --out target/scale   # a quick check of the benchmark
    python -m benches.scale --render benches/results/scale   # only redraw the plot

The job is that of ``benches.peers``: a finalizer and a status for each object. For each number of
objects, the operator starts when all objects exist, and handles them. Then it restarts on the same
objects and has nothing to do. The embedded cluster runs in this process, so that it is no
bottleneck. The cost of an operator without objects is subtracted.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import tempfile
import time

from kopf.testing import Cluster

from .chart import Line, Panel, svg
from .embedded import create, running, wait_until, wait_until_idle
from .peers.__main__ import machine

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent
OPERATOR = HERE / 'peers' / 'kopf' / 'handlers_async.py'
CRD = HERE / 'peers' / 'crd.json'
RESOURCE = '/apis/bench.dev/v1/namespaces/default/widgets'
SIZES = (1000, 3000, 10000, 30000, 50000, 100000)

CALLED = 'kopf_handler_duration_seconds_count{handler="apply",kind="change"}'
IDLE = 'kopf_queue_objects{state="idle"}'


@dataclasses.dataclass(frozen=True)
class Run:
    """One operator from its start until it is idle."""

    seconds: float
    cpu_seconds: float
    rss_mib: float
    peak_mib: float


@dataclasses.dataclass(frozen=True)
class Point:
    objects: int
    without: Run
    first: Run
    restart: Run


def measure(script: pathlib.Path, objects: int, calls: int) -> Run:
    with running(script) as (operator, metrics):
        wait_until(
            operator,
            metrics,
            lambda seen: seen.get(IDLE, -1) >= objects and seen.get(CALLED, 0) >= calls,
        )
        seconds = time.time() - operator.started
        cpu = wait_until_idle(operator)
        return Run(seconds, cpu, operator.rss(), operator.peak_rss())


def measure_point(objects: int) -> Point:
    with (
        tempfile.TemporaryDirectory(prefix='scale-') as folder,
        Cluster(workloads=False) as cluster,
    ):
        cluster.apply(json.loads(CRD.read_text()))
        script = pathlib.Path(folder) / 'widgets.py'
        script.write_text(OPERATOR.read_text())
        without = measure(script, 0, 0)
        widgets = (
            {
                'apiVersion': 'bench.dev/v1',
                'kind': 'Widget',
                'metadata': {'name': f'widget-{number:06}'},
                'spec': {
                    'title': f'Widget {number}',
                    'color': 'red',
                    'size': 1,
                    'tags': ['a', 'b'],
                    'payload': 'x' * 800,
                },
            }
            for number in range(objects)
        )
        create(cluster, RESOURCE, widgets)
        first = measure(script, objects, objects)
        return Point(objects, without, first, measure(script, objects, 0))


def per_object(point: Point, run: Run) -> tuple[float, float, float]:
    """Return milliseconds, CPU microseconds and resident bytes per object."""
    return (
        (run.seconds - point.without.seconds) / point.objects * 1e3,
        (run.cpu_seconds - point.without.cpu_seconds) / point.objects * 1e6,
        (run.rss_mib - point.without.rss_mib) / point.objects * 2**20,
    )


def table(points: list[Point]) -> str:
    head = (
        '| objects | first time, ms | CPU, µs | bytes | restart, ms | CPU, µs | bytes | peak, MiB |'
    )
    lines = [head, '|---:|---:|---:|---:|---:|---:|---:|---:|']
    for point in points:
        time_, cpu, size = per_object(point, point.first)
        again, again_cpu, again_size = per_object(point, point.restart)
        lines.append(
            f'| {point.objects:,} | {time_:.2f} | {cpu:.0f} | {size:.0f} '
            f'| {again:.3f} | {again_cpu:.0f} | {again_size:.0f} | {point.first.peak_mib:.0f} |'
        )
    return '\n'.join(lines) + '\n'


def plot(points: list[Point]) -> str:
    titles = ('time, ms', 'CPU, µs', 'resident memory, bytes')
    sizes = [float(point.objects) for point in points]
    panels = []
    for index, title in enumerate(titles):
        first = [per_object(point, point.first)[index] for point in points]
        again = [per_object(point, point.restart)[index] for point in points]
        panels.append(
            Panel(title, sizes, [Line('handled the first time', first), Line('restart', again)])
        )
    return svg('The cost of one object, by the number of objects', panels)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog='python -m benches.scale',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        '--sizes',
        type=lambda text: tuple(map(int, text.split(','))),
        default=SIZES,
        help='numbers of objects, separated by commas',
    )
    parser.add_argument('--out', type=pathlib.Path, default=HERE / 'results' / 'scale')
    parser.add_argument('--render', type=pathlib.Path, metavar='DIR', help='only redraw')
    args = parser.parse_args()
    folder = args.render or args.out
    if not args.render:
        folder.mkdir(parents=True, exist_ok=True)
        points = []
        for size in args.sizes:
            points.append(measure_point(size))
            print(table(points).splitlines()[-1], flush=True)
            data = {'machine': machine(), 'points': [dataclasses.asdict(point) for point in points]}
            (folder / 'results.json').write_text(json.dumps(data, indent=1) + '\n')
    points = read_points(folder)
    (folder / 'results.md').write_text(table(points))
    (folder / 'scale.svg').write_text(plot(points))
    print(table(points))


def read_points(folder: pathlib.Path) -> list[Point]:
    data = json.loads((folder / 'results.json').read_text())
    return [
        Point(
            point['objects'],
            *(Run(**point[part]) for part in ('without', 'first', 'restart')),
        )
        for point in data['points']
    ]


if __name__ == '__main__':
    main()

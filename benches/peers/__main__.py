"""``python -m benches.peers``: operator frameworks side by side on a real control plane.

    python -m benches.peers --quick           # a quick check: small numbers, one round
    python -m benches.peers                          # the full benchmark
    python -m benches.peers --only ours-rust,kube-rs --phases storm,update --n 500 --rounds 4
    python -m benches.peers --render DIR --readme README.md   # only render the tables again

All operators run on the same control plane, one at a time, in the order A B C, C B A, …, so that
drift and noise show. Called by ``make bench`` and ``make bench-quick``.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import sys
import tempfile
import time
from typing import Any

from .configuration import HERE, PROJECT, Configuration, OperatorEntry
from .metrics import METRICS, Results
from .phases import GROUPS, PHASES, Bench, ControlPlane, Scale
from .report import full_report, put_into

QUICK = Scale(
    n=150,
    burst_n=300,
    idle_n=300,
    large_restart_n=1000,
    latency_seconds=3.0,
    idle_seconds=2.0,
    startups=1,
    quiet_seconds=1.0,
    timer_seconds=2.0,
    timer_rounds=1,
)


#: The fields of the scale that the command line can set.
SIZES = ('n', 'burst_n', 'idle_n', 'large_restart_n', 'timeout_seconds')


def main() -> None:
    args = arguments()
    if args.render:
        results = Results(json.loads((args.render / 'results.json').read_text()))
        (args.render / 'results.md').write_text(full_report(results))
        if args.readme:
            args.readme.write_text(put_into(args.readme.read_text(), results))
        return
    configuration = Configuration.load(args.operators)
    operators = chosen(configuration, args.only)
    scale = QUICK if args.quick else Scale()
    given = {name: getattr(args, name) for name in SIZES}
    scale = dataclasses.replace(
        scale, **{name: value for name, value in given.items() if value is not None}
    )
    rounds = args.rounds or (1 if args.quick else 2)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # run the cleanup

    log('building')
    configuration.prepare(operators)
    with tempfile.TemporaryDirectory(prefix='bench-') as folder:
        workdir = pathlib.Path(folder)
        plane = ControlPlane(workdir / 'plane')
        log('starting the control plane')
        plane.up(bound=True)
        try:
            bench = Bench(scale, configuration, plane, workdir)
            bench.setup()
            data = {
                'date': datetime.datetime.now(datetime.UTC).strftime('%Y-%m-%d %H:%M UTC'),
                'machine': machine(),
                'plane': plane.client.get('/version')['gitVersion'],
                'scale': dataclasses.asdict(scale),
                'rounds': rounds,
                'baselines': configuration.baselines,
                'operators': [operator.name for operator in operators],
                'versions': configuration.versions(operators),
                'runs': [],
            }
            args.out.mkdir(parents=True, exist_ok=True)
            run_rounds(bench, operators, set(args.phases), rounds, data, args.out)
        finally:
            plane.down()
            for path in workdir.glob('*.log'):
                shutil.copy(path, args.out / path.name)
    print(full_report(Results(data)))


def run_rounds(
    bench: Bench,
    operators: list[OperatorEntry],
    phases: set[str],
    rounds: int,
    data: dict[str, Any],
    out: pathlib.Path,
) -> None:
    """Run all rounds; write the results after each run, so that nothing is lost."""
    for group in GROUPS:
        wanted = {operator.name: phases_of(operator, phases & set(group)) for operator in operators}
        involved = [operator for operator in operators if wanted[operator.name]]
        if 'large_restart' in group and involved:
            log('creating the objects of the large restart')
            bench.create_handled_copies(involved)
        for number in range(rounds_of(group, rounds)):
            for operator in involved if number % 2 == 0 else involved[::-1]:
                began = time.monotonic()
                figures = bench.run(operator, wanted[operator.name])
                data['runs'].append(
                    {'operator': operator.name, 'round': number + 1, 'figures': figures}
                )
                log(
                    f'round {number + 1}: {operator.name}: {time.monotonic() - began:.0f} s:',
                    '; '.join(summary(figures)),
                )
                text = json.dumps(data, indent=1, ensure_ascii=False)
                (out / 'results.json').write_text(text + '\n')
                (out / 'results.md').write_text(full_report(Results(data)))


def phases_of(operator: OperatorEntry, phases: set[str]) -> set[str]:
    return phases if operator.phases is None else phases & operator.phases


def rounds_of(group: tuple[str, ...], rounds: int) -> int:
    """Half as many for the phases with most objects: they take longest and vary least."""
    return max(1, rounds // 2) if {'burst', 'idle', 'large_restart'} & set(group) else rounds


def summary(figures: dict[str, Any]) -> list[str]:
    shown = [
        f'{metric.title} {metric.shown(value)} {metric.unit}'.rstrip()
        for metric in METRICS.values()
        if (value := metric.read(figures)) is not None
        and re.search('wall|first status|CPU$|RSS$|p50', metric.title)
    ]
    return [*shown, *figures.get('errors', [])]


def chosen(configuration: Configuration, only: list[str] | None) -> list[OperatorEntry]:
    if only is None:
        return [operator for operator in configuration.operators if operator.default]
    by_name = {operator.name: operator for operator in configuration.operators}
    if unknown := set(only) - set(by_name):
        sys.exit(f'No such operators: {", ".join(sorted(unknown))}; known: {", ".join(by_name)}')
    return [by_name[name] for name in only]


def arguments() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return text.split(',')

    parser = argparse.ArgumentParser(
        prog='python -m benches.peers',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--operators', type=pathlib.Path, default=HERE / 'operators.toml')
    parser.add_argument('--only', type=names, help='names of operators, separated by commas')
    parser.add_argument(
        '--phases',
        type=names,
        default=list(PHASES),
        help=f'some of {",".join(PHASES)}; '
        'update, delete, latency need storm; restart, timers need idle',
    )
    parser.add_argument('--n', type=int, help='objects in storm, update, delete')
    parser.add_argument('--burst-n', type=int, help='objects in the burst')
    parser.add_argument('--idle-n', type=int, help='objects in idle, restart and timers')
    parser.add_argument('--large-restart-n', type=int, help='objects in the large restart')
    parser.add_argument(
        '--timeout',
        type=int,
        dest='timeout_seconds',
        help='seconds within which all objects of a phase must be ready',
    )
    parser.add_argument('--rounds', type=int)
    parser.add_argument('--quick', action='store_true', help='small numbers, one round')
    parser.add_argument('--out', type=pathlib.Path, default=PROJECT / 'benches' / 'results' / 'new')
    parser.add_argument(
        '--render',
        type=pathlib.Path,
        metavar='DIR',
        help='only render the tables again',
    )
    parser.add_argument(
        '--readme', type=pathlib.Path, help='with --render: put the short table into this file'
    )
    return parser.parse_args()


def machine() -> str:
    info = pathlib.Path('/proc/cpuinfo').read_text()
    model = re.search(r'^model name\s*:\s*(.*)$', info, re.MULTILINE)
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30
    return f'{os.cpu_count()} × {model[1] if model else platform.machine()}, {memory:.0f} GiB'


def log(*args: Any) -> None:
    print(time.strftime('%H:%M:%S'), *args, file=sys.stderr, flush=True)


if __name__ == '__main__':
    main()

"""``python -m tests.conformance``: runs the corpus on both servers and writes the report.

For development, parts of the corpus can be run on servers that run already:

    python -m tests.conformance --only 'json patch*' --real KUBECONFIG --ours KUBECONFIG --show
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fnmatch
import pathlib
import secrets
import sys
import tempfile

from . import corpus, report
from .comparison import load_deliberate
from .exchange import Server
from .recording import RECORDED, Recording, save_known
from .running import RUN, THREADS, Answers, Result, run_all, run_scenario
from .scenario import Scenario
from .servers import ROOT, our_server, real_server

VERSION = '1.36.3'
REPORT = ROOT / 'docs' / 'conformance.md'


def main() -> None:
    args = arguments()
    scenarios = [
        scenario
        for scenario in corpus.load()
        if not args.only or any(fnmatch.fnmatchcase(scenario.key, glob) for glob in args.only)
    ]
    recording = Recording.load() if args.recorded else Recording.empty()
    results: list[Result] = []
    for workloads in False, True:
        part = [scenario for scenario in scenarios if scenario.workloads == workloads]
        if part:
            results += run_part(part, recording, args, workloads=workloads)
    order = {scenario.key: number for number, scenario in enumerate(scenarios)}
    results.sort(key=lambda result: (order[result.scenario.key], result.number))
    if not args.only and not args.recorded:
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text(report.report(results, load_deliberate(), VERSION))
        recording.save()
        save_known(results)
        print(f'Written: {REPORT.relative_to(ROOT)}, {RECORDED.relative_to(ROOT)}')
    elif args.accept and not args.only:
        save_known(results)
    elif args.record:
        whole = Recording.load()
        whole.update(recording)
        whole.save()
    print('\n'.join(report.table(report.areas(results))))
    if args.show:
        print('\n'.join(report.unexplained(results, limit=args.show)))
    if args.paths:
        print_paths(results)
    sys.exit(any(result.unexplained for result in results))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python -m tests.conformance', description=__doc__)
    parser.add_argument('--only', action='append', help='globs of scenarios: "area: name"')
    parser.add_argument('--real', type=pathlib.Path, help='kubeconfig of a real server that runs')
    parser.add_argument('--ours', type=pathlib.Path, help='kubeconfig of ours that runs')
    parser.add_argument('--recorded', action='store_true', help='no real server but its recording')
    parser.add_argument(
        '--record', action='store_true', help='with --only: record these again'
    )
    parser.add_argument('--accept', action='store_true', help='with --recorded: write known.txt')
    parser.add_argument('--show', type=int, nargs='?', const=report.SHOWN_REQUESTS, metavar='N')
    parser.add_argument('--paths', action='store_true', help='count the differing fields')
    parser.add_argument('--threads', type=int, default=THREADS)
    return parser.parse_args()


def run_part(
    scenarios: list[Scenario],
    recording: Recording,
    args: argparse.Namespace,
    *,
    workloads: bool,
) -> list[Result]:
    # Servers that run already may have objects of an earlier run.
    run = secrets.token_hex(2) if args.real or args.ours else RUN
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = (
            Server(args.ours)
            if args.ours
            else stack.enter_context(our_server(folder / 'ours', workloads=workloads))
        )
        if args.recorded:
            answers_of_real = recording.answers
        else:
            real = (
                Server(args.real)
                if args.real
                else stack.enter_context(real_server(folder / 'real', workloads=workloads))
            )

            def answers_of_real(scenario: Scenario) -> Answers:
                answers = run_scenario(real, scenario, run)
                recording.add(scenario, answers)
                return answers

        return run_all(
            scenarios,
            answers_of_real,
            lambda scenario: run_scenario(ours, scenario, run),
            load_deliberate(),
            threads=args.threads,
        )


def print_paths(results: list[Result]) -> None:
    counts = collections.Counter(
        difference.path for result in results for difference in result.unexplained[:3]
    )
    for path, count in counts.most_common(60):
        print(f'{count:6} {path}')


if __name__ == '__main__':
    main()

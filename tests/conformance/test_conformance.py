"""The whole corpus on a real control plane and on ours. Run by ``make test-real``."""

from __future__ import annotations

import pathlib

from . import corpus, report
from .comparison import load_deliberate
from .running import RUN, run_all, run_scenario
from .servers import our_server, real_server

#: What each area must reach, in percent. Deliberate differences do not count against it.
REQUIRED_SHARE = 98.0


def test_ours_answers_as_the_real_one(tmp_path: pathlib.Path) -> None:
    results = []
    for workloads in False, True:
        scenarios = [scenario for scenario in corpus.load() if scenario.workloads == workloads]
        if scenarios:
            with (
                real_server(tmp_path / f'real-{workloads}', workloads=workloads) as real,
                our_server(tmp_path / f'ours-{workloads}', workloads=workloads) as ours,
            ):
                results += run_all(
                    scenarios,
                    lambda scenario: run_scenario(real, scenario, RUN),
                    lambda scenario: run_scenario(ours, scenario, RUN),
                    load_deliberate(),
                )
    low = [area for area in report.areas(results) if area.explained_share < REQUIRED_SHARE]
    assert not low, '\n'.join([*report.table(report.areas(results)), *report.unexplained(results)])

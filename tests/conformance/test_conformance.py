"""The whole corpus on a real control plane and on ours. Run by ``make test-real``."""

from __future__ import annotations

import collections
import pathlib

from . import corpus, report
from .comparison import load_deliberate
from .recording import load_known
from .running import RUN, Result, run_all, run_scenario
from .servers import our_server, real_server

#: What each area is to reach, in percent. Deliberate differences do not count against it.
REQUIRED_SHARE = 98.0
#: An area that is not there yet must not fall behind what ``recorded/known.txt`` lists. A few
#: answers of the real server depend on its timing: this share of an area, in percent, may.
TIMING_SHARE = 0.5


def test_ours_answers_as_the_real_one(tmp_path: pathlib.Path) -> None:
    results: list[Result] = []
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
    known = load_known()
    new = [result for result in results if result.unexplained and result.key not in known]
    new_of_area = collections.Counter(result.scenario.area for result in new)
    fallen = [
        area.name
        for area in report.areas(results)
        if area.explained_share < REQUIRED_SHARE
        and new_of_area[area.name] > max(1.0, area.requests * TIMING_SHARE / 100.0)
    ]
    assert not fallen, '\n'.join([*report.table(report.areas(results)), *report.unexplained(new)])

"""Ours against the recorded answers of the real server: what was equal must stay equal.

Run by ``make test``; needs no control plane. What is known to differ is in ``recorded/known.txt``,
written together with the recording.
"""

from __future__ import annotations

import pathlib

import pytest

from . import corpus, report
from .comparison import load_deliberate
from .recording import Recording, load_known
from .running import RUN, run_all, run_scenario
from .servers import our_server


@pytest.mark.parametrize('workloads', [False, True], ids=['basic', 'workloads'])
def test_ours_answers_as_recorded(tmp_path: pathlib.Path, workloads: bool) -> None:
    recording = Recording.load()
    scenarios = [scenario for scenario in corpus.load() if scenario.workloads == workloads]
    if not scenarios:
        pytest.skip('the corpus has no such scenarios')
    with our_server(tmp_path, workloads=workloads) as ours:
        results = run_all(
            scenarios,
            recording.answers,
            lambda scenario: run_scenario(ours, scenario, RUN),
            load_deliberate(),
        )
    known = load_known()
    worse = [result for result in results if result.unexplained and result.key not in known]
    assert not worse, '\n'.join(report.unexplained(worse))

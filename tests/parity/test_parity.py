"""Every scenario does the same under upstream's kopf and under ours, on a real control plane."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator

import pytest

from comparison import deliberate_differences, differences
from controlplane import ControlPlane
from running import HERE, Runner, scenario_names

DELIBERATE = deliberate_differences(HERE / 'deliberate.toml')


@pytest.fixture(scope='module')
def runner(
    plane: ControlPlane, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Runner]:
    """All selected scenarios run in the background from the first test on."""
    runner = Runner(plane, tmp_path_factory.mktemp('parity'))
    runner.submit(
        [
            str(item.callspec.params['scenario'])
            for item in request.session.items
            if isinstance(item, pytest.Function) and item.originalname == 'test_scenario'
        ]
    )
    yield runner
    runner.close()


@pytest.mark.parametrize('scenario', scenario_names())
def test_scenario(scenario: str, runner: Runner) -> None:
    (reference_side, reference), *others = runner.result(scenario).items()
    for side, outcome in others:
        found = differences(scenario, reference, outcome, DELIBERATE)
        if found:
            pytest.fail(
                f'{scenario}: {reference_side} against {side}:\n' + '\n'.join(found), pytrace=False
            )


def test_no_more_writes_than_upstream(runner: Runner) -> None:
    """Over all scenarios together, since what comes in one batch depends on the time."""
    results = [runner.result(scenario) for scenario in runner.submitted]
    totals = {
        side: sum(result[side].writes for result in results if side in result)
        for side in ('upstream', 'ours')
    }
    print('The requests that change something:', totals)
    assert totals['ours'] <= totals['upstream'] * 1.02


def test_the_deliberate_differences_name_existing_scenarios() -> None:
    for entry in DELIBERATE:
        assert fnmatch.filter(scenario_names(), entry.scenario), entry

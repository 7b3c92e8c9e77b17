"""Every scenario does the same under upstream's kopf and under ours, on a real control plane."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator

import pytest

from comparison import Deliberate, deliberate_differences, differences
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
    found = undeclared(runner, scenario, DELIBERATE)
    if found:
        pytest.fail('\n'.join(found), pytrace=False)


def test_no_more_writes_than_upstream(runner: Runner) -> None:
    """Over all scenarios together, since what comes in one batch depends on the time."""
    results = {name: runner.result(name) for name in runner.submitted}
    writes = {
        name: (result['upstream'].writes, result['ours'].writes)
        for name, result in results.items()
        if 'upstream' in result
    }
    upstream, ours = (sum(counts) for counts in zip(*writes.values(), strict=True))
    more = {name: counts for name, counts in writes.items() if counts[1] > counts[0]}
    print(f'Requests that change something: upstream {upstream}, ours {ours}; more here: {more}')
    assert ours <= upstream * 1.02
    excessive = {name: counts for name, counts in more.items() if counts[1] > 2 * counts[0] + 1}
    assert not excessive, f'Some do much more here, as if in a loop: {excessive}'


def test_every_deliberate_difference_is_seen(runner: Runner) -> None:
    """An entry that hides nothing is out of date, and could hide a defect one day."""
    if 'KOPF_PARITY_PYTHON' in os.environ:
        pytest.skip('It is not ours that is compared.')
    for entry in DELIBERATE:
        others = [other for other in DELIBERATE if other is not entry]
        names = fnmatch.filter(scenario_names(), entry.scenario)
        assert names, f'There is no such scenario: {entry}'
        if set(names) <= set(runner.submitted):
            assert any(undeclared(runner, name, others) for name in names), f'Not seen: {entry}'


def undeclared(runner: Runner, scenario: str, deliberate: list[Deliberate]) -> list[str]:
    """The differences of all sides from the first one, as far as they are not declared."""
    (_, reference), *others = runner.result(scenario).items()
    return [
        f'{scenario}, {side}: {text}'
        for side, outcome in others
        for text in differences(scenario, reference, outcome, deliberate)
    ]

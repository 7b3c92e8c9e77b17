"""Every scenario does the same under upstream's kopf and under ours, on a real control plane."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from tests.controlplane.plane import ControlPlane
from tests.parity.comparison import (
    Deliberate,
    Undemonstrated,
    deliberate_differences,
    differences,
    undemonstrated_differences,
)
from tests.parity.running import HERE, Runner, scenario_names

DELIBERATE = deliberate_differences(HERE / 'deliberate.toml')
UNDEMONSTRATED = undemonstrated_differences(HERE / 'deliberate.toml')
REPOSITORY = HERE.parents[1]


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
    unseen = [
        f'{name}: {entry}'
        for entry in DELIBERATE
        for name in entry.scenarios
        if name in runner.submitted
        if not undeclared(runner, name, [other for other in DELIBERATE if other is not entry])
    ]
    assert not unseen, '\n'.join(unseen)


@pytest.mark.parametrize('entry', DELIBERATE, ids=lambda entry: str(entry.scenarios))
def test_every_deliberate_difference_has_its_scenarios(entry: Deliberate) -> None:
    unknown = {*entry.scenarios, *entry.also} - {*scenario_names()}
    assert entry.scenarios and not unknown, f'There are no such scenarios: {unknown}'
    assert entry.reason


@pytest.mark.parametrize('entry', UNDEMONSTRATED, ids=lambda entry: entry.what)
def test_every_undemonstrated_difference_has_its_test(entry: Undemonstrated) -> None:
    """What no scenario can show is shown by a test of our own."""
    path, _, name = entry.test.partition('::')
    source = REPOSITORY / path
    assert source.is_file(), f'There is no such file: {path}'
    keyword = {'.py': 'def', '.rs': 'fn'}[source.suffix]
    assert re.search(rf'\b{keyword} {re.escape(name)}\b', source.read_text()), (
        f'There is no such test in {path}: {name}'
    )
    assert entry.reason


def undeclared(runner: Runner, scenario: str, deliberate: list[Deliberate]) -> list[str]:
    """The differences of all sides from the first one, as far as they are not declared."""
    (_, reference), *others = runner.result(scenario).items()
    return [
        f'{scenario}, {side}: {text}'
        for side, outcome in others
        for text in differences(scenario, reference, outcome, deliberate)
    ]

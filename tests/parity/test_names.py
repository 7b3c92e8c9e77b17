"""Every public name of upstream exists here, and can be called in the same way. More parameters are
fine.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import Any

import pytest

from tests.parity.running import HERE, python_of_ours
from tests.support.upstream import python_of_upstream

VARIADIC = ('VAR_POSITIONAL', 'VAR_KEYWORD')

#: Upstream makes these with any arguments, but they are made by the framework only.
MADE_BY_FRAMEWORK = ('DaemonStopped', 'SyncDaemonStopperChecker', 'AsyncDaemonStopperChecker')

#: What is not comparable, with the reasons.
EXEMPT = {
    'kopf.cli': {
        'CLIControls': 'a part of the implementation of the command line',
    },
}


@pytest.fixture(scope='module')
def upstream() -> dict[str, Any]:
    return names_of(python_of_upstream())


@pytest.fixture(scope='module')
def ours() -> dict[str, Any]:
    return names_of(python_of_ours())


def names_of(python: pathlib.Path) -> dict[str, Any]:
    answer = subprocess.run(
        [str(python), str(HERE / 'dump_names.py')], capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.mark.parametrize(
    'module', ['kopf', 'kopf.on', 'kopf.testing', 'kopf.cli', 'kopf.lifecycles']
)
def test_names_and_signatures(module: str, upstream: dict[str, Any], ours: dict[str, Any]) -> None:
    exempt = EXEMPT.get(module, {})
    problems = [
        f'{module}.{name}: {problem}'
        for name, theirs in sorted(upstream[module].items())
        if name not in exempt
        for problem in problems_of(theirs, ours[module].get(name), made=name in MADE_BY_FRAMEWORK)
    ]
    print('\n'.join(problems) or f'{module}: nothing is missing of {len(upstream[module])} names.')
    if problems:
        pytest.fail('\n'.join(problems), pytrace=False)


def problems_of(theirs: dict[str, Any], ours: dict[str, Any] | None, *, made: bool) -> list[str]:
    if ours is None:
        return ['missing']
    if theirs['kind'] == 'name':
        return []
    if theirs['kind'] != ours['kind'] and {theirs['kind'], ours['kind']} != {'class', 'function'}:
        return [f'it is a {theirs["kind"]} there, but a {ours["kind"]} here']
    problems = []
    if not made and not theirs.get('protocol'):
        problems = parameter_problems(theirs.get('parameters'), ours.get('parameters'))
    for member, parameters in theirs.get('members', {}).items():
        if member not in ours.get('members', {}):
            problems.append(f'.{member}: missing')
        else:
            problems += [
                f'.{member}: {problem}'
                for problem in parameter_problems(parameters, ours['members'][member])
            ]
    return problems


def parameter_problems(
    theirs: list[dict[str, Any]] | None, ours: list[dict[str, Any]] | None
) -> list[str]:
    """A call that works there must work here; no signature (as of native classes) accepts all."""
    if theirs is None or ours is None:
        return []
    kinds = {parameter['kind'] for parameter in ours}
    known = {parameter['name']: parameter for parameter in ours}
    problems: list[str] = []
    matched: set[str] = set()
    for position, parameter in enumerate(theirs):
        if parameter['kind'] in VARIADIC:
            if parameter['kind'] not in kinds:
                problems.append(f'no {parameter["kind"]} here')
            continue
        private = is_private(parameter['name'])
        found = nth(ours, position) if private else known.get(parameter['name'])
        if found is None:
            if 'VAR_KEYWORD' not in kinds or parameter['kind'] != 'KEYWORD_ONLY':
                problems.append(f'no parameter {parameter["name"]}')
            continue
        matched.add(found['name'])
        if not private and not is_kind_compatible(parameter['kind'], found['kind']):
            problems.append(f'{parameter["name"]} is {found["kind"]} here')
        if found['default'] != parameter['default']:
            problems.append(
                f'{parameter["name"]}={parameter["default"]} there, but {found["default"]} here'
            )
    if not any(parameter['kind'] == 'VAR_POSITIONAL' for parameter in theirs):
        problems += [
            f'{parameter["name"]} is required here'
            for parameter in ours
            if parameter['default'] is None and parameter['kind'] not in VARIADIC
            if parameter['name'] not in matched
        ]
    return problems


def is_private(name: str) -> bool:
    """A name with two underscores cannot be used in calls: only its position counts."""
    return '__' in name


def nth(parameters: list[dict[str, Any]], position: int) -> dict[str, Any] | None:
    positional = [item for item in parameters if item['kind'].startswith('POSITIONAL')]
    return positional[position] if position < len(positional) else None


def is_kind_compatible(theirs: str, ours: str) -> bool:
    return theirs == ours or (theirs, ours) == ('KEYWORD_ONLY', 'POSITIONAL_OR_KEYWORD')

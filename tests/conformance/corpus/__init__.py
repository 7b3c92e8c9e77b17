"""All scenarios: those of the YAML files, and the generated ones, in a stable order.

A YAML file has one document for each area: ``area``, ``scenarios`` (a name to a list of steps), and
``workloads: true`` if the controllers of workloads are needed.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import yaml

from ..scenario import Scenario, ScenarioError, make_scenario
from . import by_kind

HERE = pathlib.Path(__file__).parent


def load() -> list[Scenario]:
    scenarios = [*written(), *by_kind.generate()]
    seen: set[str] = set()
    for scenario in scenarios:
        if scenario.key in seen:
            raise ScenarioError(f'two scenarios are named {scenario.key!r}')
        seen.add(scenario.key)
    return scenarios


def written() -> Iterator[Scenario]:
    for path in sorted(HERE.glob('*.yaml')):
        for document in yaml.safe_load_all(path.read_text()):
            for name, steps in document['scenarios'].items():
                yield make_scenario(
                    document['area'], name, steps, workloads=document.get('workloads', False)
                )

"""Compares two normalised answers field by field, and knows which differences are meant to be.

Used by running.py. The deliberate differences are in ``deliberate.toml``, each with its reason.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DELIBERATE = pathlib.Path(__file__).with_name('deliberate.toml')
ABSENT = object()


@dataclasses.dataclass(frozen=True)
class Difference:
    """One field that differs."""

    path: str
    real: Any
    ours: Any

    def __str__(self) -> str:
        return f'{self.path}: real {shown(self.real)} | ours {shown(self.ours)}'


@dataclasses.dataclass(frozen=True)
class Deliberate:
    """A difference that is meant to be. The scenario and the path are globs."""

    scenario: str
    path: str
    reason: str

    def covers(self, scenario: str, difference: Difference) -> bool:
        return fnmatch.fnmatchcase(scenario, self.scenario) and fnmatch.fnmatchcase(
            difference.path, self.path
        )


def load_deliberate(path: pathlib.Path = DELIBERATE) -> list[Deliberate]:
    entries = tomllib.loads(path.read_text()).get('difference', [])
    return [Deliberate(**entry) for entry in entries]


def differences(real: Any, ours: Any, path: str = '') -> Iterator[Difference]:
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in [*real, *(key for key in ours if key not in real)]:
            below = f'{path}/{key}' if path else key
            yield from differences(real.get(key, ABSENT), ours.get(key, ABSENT), below)
    elif isinstance(real, list) and isinstance(ours, list):
        if len(real) != len(ours):
            yield Difference(f'{path}/length', len(real), len(ours))
        for index in range(max(len(real), len(ours))):
            yield from differences(
                real[index] if index < len(real) else ABSENT,
                ours[index] if index < len(ours) else ABSENT,
                f'{path}/{index}',
            )
    elif type(real) is not type(ours) or real != ours:
        yield Difference(path, real, ours)


def shown(value: Any, limit: int = 400) -> str:
    if value is ABSENT:
        return '(absent)'
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else text[:limit] + '…'

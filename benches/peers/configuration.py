"""Reads operators.toml, builds the operators under test, and asks them for their versions."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib  # type: ignore[no-redef]

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
CACHE = pathlib.Path(os.environ.get('XDG_CACHE_HOME') or '~/.cache').expanduser() / 'kopf' / 'bench'


@dataclasses.dataclass(frozen=True)
class OperatorEntry:
    """One operator under test: an entry of operators.toml."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    build: tuple[str, ...]
    version: tuple[str, ...]
    default: bool
    #: The phases that it runs; None for all.
    phases: frozenset[str] | None


@dataclasses.dataclass(frozen=True)
class Configuration:
    operators: tuple[OperatorEntry, ...]
    builds: Mapping[str, Any]
    baselines: tuple[str, ...]
    values: Mapping[str, str]

    @classmethod
    def load(cls, path: pathlib.Path) -> Configuration:
        data = tomllib.loads(path.read_text())
        values = {
            'bench': str(HERE),
            'project': str(PROJECT),
            'cache': str(CACHE),
            'python': sys.executable,
        }
        operators = tuple(
            OperatorEntry(
                name=entry['name'],
                command=tuple(entry['command']),
                env=entry.get('env', {}),
                build=tuple(entry.get('build', ())),
                version=tuple(entry.get('version', ())),
                default=entry.get('default', True),
                phases=frozenset(entry['phases']) if 'phases' in entry else None,
            )
            for entry in data['operator']
        )
        return cls(operators, data['build'], tuple(data['baselines']), values)

    def filled(self, arguments: Iterable[str], **more: str) -> list[str]:
        return [fill(argument, {**self.values, **more}) for argument in arguments]

    def prepare(self, operators: Iterable[OperatorEntry]) -> None:
        """Build the load generator and the operators."""
        (CACHE / 'bin').mkdir(parents=True, exist_ok=True)
        loader = ['go', 'build', '-o', str(CACHE / 'bin' / 'loader'), '.']
        subprocess.run(loader, cwd=HERE / 'loader', check=True)
        for name in dict.fromkeys(name for entry in operators for name in entry.build):
            build = self.builds[name]
            env = {key: fill(value, self.values) for key, value in build.get('env', {}).items()}
            for step in build['steps']:
                subprocess.run(
                    self.filled(step),
                    check=True,
                    cwd=fill(build.get('dir', '{bench}'), self.values),
                    env={**os.environ, **env},
                )

    def versions(self, operators: Iterable[OperatorEntry]) -> dict[str, str]:
        return {
            entry.name: subprocess.run(
                self.filled(entry.version), capture_output=True, text=True, check=True
            ).stdout.strip()
            for entry in operators
            if entry.version
        }


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders ``{name}`` with their values."""
    return re.sub(r'\{(\w+)\}', lambda match: values.get(match[1], match[0]), text)

"""One version: Cargo.toml has it, and everything that repeats it agrees. See `scripts/version.py`."""
from __future__ import annotations

from scripts import version
from scripts.lint.sources import Report


def check() -> Report:
    problems = version.differences()
    return Report(f'versions: {version.current()}, {len(problems)} places differ', problems)

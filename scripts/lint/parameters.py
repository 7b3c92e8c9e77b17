"""Few parameters: clippy refuses functions with more than six, and nothing switches that off."""
from __future__ import annotations

import re
import tomllib

from scripts.lint.sources import ROOT, Report, files, line_of, read

MAX_PARAMETERS = 6
SWITCHED_OFF = re.compile(r'\b(?:allow|expect)\s*\([^)]*clippy::(?:too_many_arguments|complexity|all)\b')


def check() -> Report:
    names = files('.rs', under=('crates/', 'benches/', 'examples/'))
    problems = []
    for name in names:
        text = read(name)
        problems += [f'{name}:{line_of(text, match.start())}: {match[0]}: group the parameters into a struct'
                     for match in SWITCHED_OFF.finditer(text)]
    threshold = tomllib.loads((ROOT / 'clippy.toml').read_text()).get('too-many-arguments-threshold')
    if threshold != MAX_PARAMETERS:
        problems.append(f'clippy.toml: too-many-arguments-threshold is {threshold}, must be {MAX_PARAMETERS}')
    for manifest in files('Cargo.toml'):
        if 'too_many_arguments' in read(manifest):
            problems.append(f'{manifest}: too_many_arguments must not be configured here')
    return Report(
        f'parameters: {len(names)} Rust files, at most {MAX_PARAMETERS} per function by clippy, {len(problems)} violations',
        problems)

#!/usr/bin/env python3
"""The invariants of ARCHITECTURE.md that can be checked by a command. Called by `make lint`.

Each check prints what it has found; the exit code tells whether all hold.
"""
from __future__ import annotations

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What must not be among the (transitive, normal) dependencies of a crate.
FORBIDDEN = {
    'kopf-object': ['tokio', 'kube', 'hyper', 'pyo3', 'kopf-reaction', 'kopf-engine', 'kopf-cluster'],
    'kopf-reaction': ['tokio', 'kube', 'hyper', 'pyo3', 'kopf-engine', 'kopf-cluster'],
    'kopf-engine': ['pyo3', 'kopf-cluster', 'kopf', 'kopf-python'],
    'kopf': ['pyo3', 'kopf-python'],
    'kopf-cluster': ['kopf-reaction', 'kopf-engine', 'kopf', 'pyo3'],
}

# Pure code takes the time as an argument, and touches neither files nor sockets nor threads.
IMPURE = re.compile(
    r'\bstd::(?:time::(?:SystemTime|Instant)|fs|net|thread|process|env)\b'
    r'|\bTimestamp::now\b|\bZoned::now\b|\basync\s+fn\b|\.await\b')
PURE_CRATES = ['kopf-object', 'kopf-reaction']

# Time and randomness of the engine come from one file.
CLOCKS = re.compile(r'\bSystemTime::now\b|\bInstant::now\b|\bTimestamp::now\b|\btokio::time::(?:sleep|timeout)\b|\brand::')


def dependencies(crate: str) -> set[str]:
    tree = subprocess.run(
        ['cargo', 'tree', '--locked', '--package', crate, '--edges', 'normal', '--prefix', 'none',
         '--format', '{p}'],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = {line.split()[0] for line in tree.splitlines() if line.strip()}
    return names - {crate}


def check_directions() -> list[str]:
    problems = []
    for crate, forbidden in FORBIDDEN.items():
        if not (ROOT / 'crates' / crate).exists():
            continue
        found = sorted(dependencies(crate) & set(forbidden))
        problems += [f'{crate} must not depend on {name}, but it does' for name in found]
    return problems


def production_lines(path: pathlib.Path) -> list[tuple[int, str]]:
    """The lines of a source file without comments and without the tests at its end."""
    lines = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if line.startswith('#[cfg(test)]'):
            break
        if not line.lstrip().startswith('//'):
            lines.append((number, line))
    return lines


def check_sources(folder: str, pattern: re.Pattern[str], what: str, allowed: tuple[str, ...] = ()) -> list[str]:
    problems = []
    for path in sorted((ROOT / folder).rglob('*.rs')):
        if path.name in allowed:
            continue
        for number, line in production_lines(path):
            if match := pattern.search(line):
                problems.append(f'{path.relative_to(ROOT)}:{number}: {what}: {match.group(0)}')
    return problems


def check_purity() -> list[str]:
    return [problem for crate in PURE_CRATES
            for problem in check_sources(f'crates/{crate}/src', IMPURE, 'not pure')]


def check_clock() -> list[str]:
    return check_sources('crates/kopf-engine/src', CLOCKS, 'time and randomness come from clock.rs', ('clock.rs',))


def check_documents() -> list[str]:
    """The documents speak of paths that exist."""
    problems = []
    documents = [*ROOT.glob('*.md'), *ROOT.glob('docs/*.md')]
    for document in sorted(str(path.relative_to(ROOT)) for path in documents):
        text = (ROOT / document).read_text()
        for path in re.findall(r'`((?:crates|python|tests|examples|scripts|docs|benches)/[\w./-]+)`', text):
            # What stands for a name is in capitals, as in benches/results/DATE.
            if not (ROOT / path).exists() and not path.rpartition('/')[2].isupper():
                problems.append(f'{document} speaks of {path}, which does not exist')
    return problems


def main() -> int:
    failed = False
    for check in [check_directions, check_purity, check_clock, check_documents]:
        problems = check()
        print(f'{check.__name__}: {"ok" if not problems else "FAILED"}')
        for problem in problems:
            print(f'  {problem}')
        failed = failed or bool(problems)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())

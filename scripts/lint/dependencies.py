"""Dependencies point one way: what each crate must not depend on, also not through others.

Only normal dependencies count; tests may use more (ARCHITECTURE.md has the reasons).
"""
from __future__ import annotations

import subprocess

from scripts.lint.sources import ROOT, Report

#: crate: what must not be among its transitive dependencies.
FORBIDDEN = {
    'kopf-object': ['tokio', 'kube', 'hyper', 'pyo3', 'kopf-reaction', 'kopf-engine', 'kopf-cluster'],
    'kopf-reaction': ['tokio', 'kube', 'hyper', 'pyo3', 'kopf-engine', 'kopf-cluster'],
    'kopf-engine': ['pyo3', 'kopf-cluster', 'kopf', 'kopf-python'],
    'kopf': ['pyo3', 'kopf-python'],
    'kopf-python': ['kopf-cluster', 'kopf-cli'],
    'kopf-cluster-python': ['kopf-reaction', 'kopf-engine', 'kopf-python'],
    'kopf-cluster': ['kopf-reaction', 'kopf-engine', 'kopf', 'pyo3'],
}


def check() -> Report:
    present = {crate: names for crate, names in FORBIDDEN.items() if (ROOT / 'crates' / crate).exists()}
    problems = [f'{crate} must not depend on {name}, but it does'
                for crate, names in present.items()
                for name in sorted(dependencies(crate) & {*names})]
    problems += [f'scripts/lint/dependencies.py: there is no crate {crate}' for crate in FORBIDDEN if crate not in present]
    count = sum(map(len, present.values()))
    return Report(f'dependencies: {len(present)} crates, {count} forbidden edges, {len(problems)} present', problems)


def dependencies(crate: str) -> set[str]:
    tree = subprocess.run(
        ['cargo', 'tree', '--locked', '--package', crate, '--edges', 'normal', '--prefix', 'none', '--format', '{p}'],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {line.split()[0] for line in tree.splitlines() if line.strip()} - {crate}

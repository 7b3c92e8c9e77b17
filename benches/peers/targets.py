"""The targets of our fronts: ratios to other operators in the same run, or plain figures.

Called by report.py. The report lists every target, whether met or not.
"""

from __future__ import annotations

import dataclasses

from .metrics import METRICS, Results, title_of

PYTHON = 'ours-python'
COMPACT = 'ours-python-compact'
RUST = 'ours-rust'


@dataclasses.dataclass(frozen=True)
class Target:
    operator: str
    metric: str
    limit: float
    #: The operator to compare with; None if the limit is a figure.
    than: str | None = None


def targets_of(titles: str, operator: str, limit: float, than: str | None = None) -> list[Target]:
    return [Target(operator, title, limit, than) for title in titles.split('; ')]


CPU = 'storm: CPU; update: CPU; delete: CPU'
LATENCY = 'latency: p50; latency: p99'
WRITES = 'storm: writes per object; update: writes per object; delete: writes per object'

TARGETS = [
    *targets_of(CPU, PYTHON, 0.10, 'kopf-async-uvloop'),
    *targets_of(CPU, PYTHON, 0.5, 'controller-runtime'),
    *targets_of('storm: peak RSS', PYTHON, 0.8, 'controller-runtime'),
    *targets_of('idle: RSS', PYTHON, 0.65, 'controller-runtime'),
    *targets_of('restart: CPU', PYTHON, 0.05, 'kopf-async-uvloop'),
    *targets_of('restart: RSS', PYTHON, 0.6, 'controller-runtime'),
    *targets_of(LATENCY, PYTHON, 1.0, 'controller-runtime'),
    *targets_of('startup: spawn → first status', PYTHON, 1.0, 'controller-runtime'),
    *targets_of(WRITES, PYTHON, 1.0, 'kopf-async-uvloop'),
    *(
        Target(COMPACT, title, limit)
        for title, limit in zip(WRITES.split('; '), (2.0, 1.0, 1.0), strict=True)
    ),
    *targets_of('storm: sockets', PYTHON, 16),
    *targets_of('burst: the first object is ready', PYTHON, 1.0),
    *targets_of('burst: failed requests', PYTHON, 0),
    *targets_of('burst: peak RSS', PYTHON, 80),
    *targets_of(CPU, RUST, 0.6, 'kube-rs'),
    *targets_of('storm: peak RSS', RUST, 0.6, 'kube-rs'),
    *targets_of('idle: RSS', RUST, 0.3, 'kube-rs'),
    *targets_of('restart: CPU', RUST, 0.35, 'kube-rs'),
    *targets_of('restart: RSS', RUST, 0.3, 'kube-rs'),
    *targets_of(LATENCY, RUST, 1.0, 'kube-rs'),
    *targets_of(LATENCY, RUST, 1.0, 'controller-runtime'),
    *targets_of('startup: spawn → first status', RUST, 1.0, 'kube-rs'),
    *targets_of(WRITES, RUST, 1.0, 'kopf-async-uvloop'),
    *targets_of('storm: sockets', RUST, 16),
    *targets_of('burst: the first object is ready', RUST, 1.0),
    *targets_of('burst: failed requests', RUST, 0),
    *targets_of('burst: peak RSS', RUST, 60),
]


def targets_table(results: Results) -> list[str]:
    """Return a line for each measured target; ratios compare medians."""
    lines = ['| | operator | target | measured | met |', '|---|---|---|---:|---|']
    for target in TARGETS:
        metric = METRICS[target.metric]
        value = results.median(target.operator, metric)
        if value is None:
            continue
        if target.than is None:
            required = f'at most {target.limit:g} {metric.unit}'.rstrip()
            shown, met = metric.shown(value), value <= target.limit
        else:
            base = results.median(target.than, metric)
            if not base:
                continue
            required = f'at most {target.limit:g}× {title_of(target.than)}'
            shown, met = f'{value / base:.2f}×', value <= target.limit * base
        operator, met_text = title_of(target.operator), 'yes' if met else '**no**'
        lines.append(f'| {target.metric} | {operator} | {required} | {shown} | {met_text} |')
    return lines

"""The bars: what our fronts are to reach, as ratios to others in the same run or as figures.

The table of the bars is part of the report, met or not.
"""

from __future__ import annotations

import dataclasses

from .metrics import METRICS, Results

PYTHON = 'ours-python'
COMPACT = 'ours-python-compact'
RUST = 'ours-rust'


@dataclasses.dataclass(frozen=True)
class Bar:
    operator: str
    metric: str
    limit: float
    #: The operator to compare with; None if the limit is a figure.
    than: str | None = None


def bars_of(titles: str, operator: str, limit: float, than: str | None = None) -> list[Bar]:
    return [Bar(operator, title, limit, than) for title in titles.split('; ')]


CPU = 'storm: CPU; update: CPU; delete: CPU'
LATENCY = 'latency: p50; latency: p99'
WRITES = 'storm: writes per object; update: writes per object; delete: writes per object'

BARS = [
    *bars_of(CPU, PYTHON, 0.10, 'kopf-async-uvloop'),
    *bars_of(CPU, PYTHON, 0.5, 'controller-runtime'),
    *bars_of('storm: peak RSS', PYTHON, 0.8, 'controller-runtime'),
    *bars_of('idle: RSS', PYTHON, 0.65, 'controller-runtime'),
    *bars_of('restart: CPU', PYTHON, 0.05, 'kopf-async-uvloop'),
    *bars_of('restart: RSS', PYTHON, 0.6, 'controller-runtime'),
    *bars_of(LATENCY, PYTHON, 1.0, 'controller-runtime'),
    *bars_of('startup: spawn → first status', PYTHON, 1.0, 'controller-runtime'),
    *bars_of(WRITES, PYTHON, 1.0, 'kopf-async-uvloop'),
    *(
        Bar(COMPACT, title, limit)
        for title, limit in zip(WRITES.split('; '), (2.0, 1.0, 1.0), strict=True)
    ),
    *bars_of('storm: sockets', PYTHON, 16),
    *bars_of('burst: the first object is ready', PYTHON, 1.0),
    *bars_of('burst: failed requests', PYTHON, 0),
    *bars_of('burst: peak RSS', PYTHON, 80),
    *bars_of(CPU, RUST, 0.6, 'kube-rs'),
    *bars_of('storm: peak RSS', RUST, 0.6, 'kube-rs'),
    *bars_of('idle: RSS', RUST, 0.3, 'kube-rs'),
    *bars_of('restart: CPU', RUST, 0.35, 'kube-rs'),
    *bars_of('restart: RSS', RUST, 0.3, 'kube-rs'),
    *bars_of(LATENCY, RUST, 1.0, 'kube-rs'),
    *bars_of(LATENCY, RUST, 1.0, 'controller-runtime'),
    *bars_of('startup: spawn → first status', RUST, 1.0, 'kube-rs'),
    *bars_of(WRITES, RUST, 1.0, 'kopf-async-uvloop'),
    *bars_of('storm: sockets', RUST, 16),
    *bars_of('burst: the first object is ready', RUST, 1.0),
    *bars_of('burst: failed requests', RUST, 0),
    *bars_of('burst: peak RSS', RUST, 60),
]


def bars_table(results: Results) -> list[str]:
    """A line for each bar that was measured; ratios are of the medians."""
    lines = ['| | ours | bar | measured | met |', '|---|---|---|---:|---|']
    for bar in BARS:
        metric = METRICS[bar.metric]
        value = results.median(bar.operator, metric)
        if value is None:
            continue
        if bar.than is None:
            required = f'at most {bar.limit:g} {metric.unit}'.rstrip()
            shown, met = metric.shown(value), value <= bar.limit
        else:
            base = results.median(bar.than, metric)
            if not base:
                continue
            required = f'at most {bar.limit:g}× {bar.than}'
            shown, met = f'{value / base:.2f}×', value <= bar.limit * base
        answer = 'yes' if met else '**no**'
        lines.append(f'| {bar.metric} | {bar.operator} | {required} | {shown} | {answer} |')
    return lines

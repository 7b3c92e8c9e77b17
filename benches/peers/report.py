"""Renders the results as tables: all of them for results.md, the main ones for the README."""

from __future__ import annotations

from typing import Any

from .metrics import METRICS, Results, title_of
from .targets import targets_table

#: The rows of the README.
SHORT = (
    'storm: wall, from spawn',
    'storm: CPU',
    'storm: peak RSS',
    'storm: sockets',
    'storm: control plane CPU',
    'update: wall',
    'update: CPU',
    'delete: wall',
    'delete: CPU',
    'burst: wall, from spawn',
    'latency: p50',
    'latency: p99',
    'startup: spawn → first status',
    'idle: RSS',
    'restart: CPU',
    'restart: RSS',
    'large restart: CPU',
    'large restart: RSS',
    'timers: CPU of 1,000 calls',
    'timers: RSS',
)
SHORT_BEGIN, SHORT_END = '<!-- bench: begin -->', '<!-- bench: end -->'


def full_report(results: Results) -> str:
    data = results.data
    scale = data['scale']
    lines = [
        '# Operator frameworks side by side',
        '',
        f'{data["date"]}; {data["machine"]}; control plane {data["plane"]}.',
        f'{scale["n"]} objects in storm, update and delete; {scale["burst_n"]} in the burst; '
        f'{scale["idle_n"]} in idle, restart and timers; '
        f'{scale["large_restart_n"]} in the large restart; '
        f'latency at {scale["rate"]:g}/s for {scale["latency_seconds"]:g} s; '
        f'idle for {scale["idle_seconds"]:g} s; {data["rounds"]} rounds.',
        '',
        *(f'- {title_of(name)}: {version}' for name, version in data['versions'].items()),
        '',
        'Medians over the rounds, with (min–max) if they differ.',
        '',
        *figures_table(results),
    ]
    for baseline in data['baselines']:
        if baseline in results.operators:
            title = title_of(baseline)
            lines += ['', f'Ratios of the medians to **{title}**; below 1 means less:', '']
            lines += ratios_table(results, baseline)
    lines += ['', '## Targets', '', *targets_table(results)]
    lines += ['', '## Requests by verb', '']
    lines += ['From the audit log of the API server, in the last round.', '']
    lines += requests_of(results)
    errors = [
        f'- {title_of(run["operator"])}, round {run["round"]}: {error}'
        for run in data['runs']
        for error in run['figures'].get('errors', [])
    ]
    if errors:
        lines += ['', '## Failures', '', *errors]
    return '\n'.join(lines) + '\n'


def figures_table(results: Results) -> list[str]:
    lines = header(results)
    for metric in METRICS.values():
        cells = []
        for name in results.operators:
            values = results.values(name, metric)
            low, high = (
                (metric.shown(min(values)), metric.shown(max(values))) if values else ('–', '–')
            )
            median = results.median(name, metric)
            cell = '–' if median is None else metric.shown(median)
            cells.append(cell if low == high else f'{cell} ({low}–{high})')
        if set(cells) != {'–'}:
            unit = f', {metric.unit}' if metric.unit else ''
            lines.append(f'| {metric.title}{unit} | ' + ' | '.join(cells) + ' |')
    return lines


def ratios_table(results: Results, baseline: str) -> list[str]:
    lines = header(results)
    for metric in METRICS.values():
        base = results.median(baseline, metric)
        if not base:
            continue
        cells = []
        for name in results.operators:
            value = results.median(name, metric)
            cells.append('–' if value is None else f'{value / base:.2f}×')
        lines.append(f'| {metric.title} | ' + ' | '.join(cells) + ' |')
    return lines


def short_table(results: Results) -> list[str]:
    """Return the README's table: the main medians, where at least two operators have one."""
    lines = header(results)
    for title in SHORT:
        metric = METRICS[title]
        medians = [results.median(name, metric) for name in results.operators]
        cells = ['–' if value is None else metric.shown(value) for value in medians]
        if sum(value is not None for value in medians) < 2:
            continue
        unit = f', {metric.unit}' if metric.unit else ''
        lines.append(f'| {title}{unit} | ' + ' | '.join(cells) + ' |')
    return lines


def put_into(text: str, results: Results) -> str:
    """Return the README with a new table between its two marks."""
    before, begin, rest = text.partition(SHORT_BEGIN)
    _, end, after = rest.partition(SHORT_END)
    if not begin or not end:
        raise ValueError(f'The marks {SHORT_BEGIN} and {SHORT_END} are missing.')
    return '\n'.join([before + begin, *short_table(results), end + after])


def header(results: Results) -> list[str]:
    names = [title_of(name) for name in results.operators]
    return ['| | ' + ' | '.join(names) + ' |', '|---|' + '---:|' * len(names)]


def requests_of(results: Results) -> list[str]:
    lines = []
    for name in results.operators:
        figures: dict[str, Any] = {}
        for run in results.data['runs']:
            if run['operator'] == name:
                figures.update(run['figures'])
        lines.append(f'- {title_of(name)}')
        for phase, found in figures.items():
            for key in 'requests', 'idle_requests':
                if isinstance(found, dict) and key in found:
                    made = ', '.join(f'{count} × {what}' for what, count in found[key].items())
                    title = phase if key == 'requests' else 'while idle'
                    lines.append(f'  - {title}: {made or "none"}')
    return lines

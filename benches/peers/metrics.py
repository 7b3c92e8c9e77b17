"""Names the figures of a run, and reads them from the results.

Used by report.py for the tables, and by targets.py to compare the figures with the targets.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable
from typing import Any

Figures = dict[str, Any]

#: How the tables name the operators; all others appear under the names of operators.toml.
TITLES = {
    'ours-python': 'kopf 2 (Python)',
    'ours-python-sync': 'kopf 2 (Python, sync)',
    'ours-python-compact': 'kopf 2 (Python, compact)',
    'ours-python-uvloop': 'kopf 2 (Python, uvloop)',
    'ours-rust': 'kopf 2 (Rust)',
    'kopf-async-uvloop': 'kopf 1.45',
    'kopf-async': 'kopf 1.45 (no uvloop)',
    'kopf-sync-uvloop': 'kopf 1.45 (sync)',
}


def title_of(operator: str) -> str:
    return TITLES.get(operator, operator)


@dataclasses.dataclass(frozen=True)
class Metric:
    title: str
    unit: str
    read: Callable[[Figures], float | None]
    format: str

    def shown(self, value: float) -> str:
        return format(value, self.format)


@dataclasses.dataclass(frozen=True)
class Results:
    """All runs of all operators, as in results.json."""

    data: dict[str, Any]

    @property
    def operators(self) -> list[str]:
        return self.data['operators']

    def values(self, operator: str, metric: Metric) -> list[float]:
        found = [
            metric.read(run['figures']) for run in self.data['runs'] if run['operator'] == operator
        ]
        return [value for value in found if value is not None]

    def median(self, operator: str, metric: Metric) -> float | None:
        values = self.values(operator, metric)
        return statistics.median(values) if values else None


def figure(path: str) -> Callable[[Figures], float | None]:
    """Return a reader of ``phase.name`` or deeper; None if the phase did not get that far."""

    def read(figures: Figures) -> float | None:
        value: Any = figures
        for key in path.split('.'):
            value = value.get(key) if isinstance(value, dict) else None
        return value

    return read


def writes_per_object(phase: str) -> Callable[[Figures], float | None]:
    """Count the requests on the objects themselves, without lists, watches and discovery."""

    def read(figures: Figures) -> float | None:
        found = figures.get(phase, {})
        if 'requests' not in found:
            return None
        writes = (
            count
            for key, count in found['requests'].items()
            if ' widgets' in key and key.split()[0] not in {'list', 'watch'}
        )
        return sum(writes) / found['n']

    return read


def failures(phase: str) -> Callable[[Figures], float | None]:
    """Count the requests that the API server answered with an error."""

    def read(figures: Figures) -> float | None:
        requests = figures.get(phase, {}).get('requests')
        if requests is None:
            return None
        return sum(count for key, count in requests.items() if '→' in key)

    return read


def cpu_of_calls(figures: Figures) -> float | None:
    """Return the CPU per 1,000 calls. All operators make the same number, within a few percent."""
    timers = figures.get('timers')
    return timers['cpu_s'] / (timers['n'] * timers['rounds']) * 1000 if timers else None


METRICS = {
    metric.title: metric
    for metric in (
        Metric('startup: spawn → first status', 's', figure('startup.seconds'), '.2f'),
        Metric('startup: CPU', 's', figure('startup.cpu_s'), '.2f'),
        Metric('storm: the first object is ready', 's', figure('storm.first_s'), '.2f'),
        Metric('storm: wall, from spawn', 's', figure('storm.seconds'), '.2f'),
        Metric('storm: CPU', 's', figure('storm.cpu_s'), '.2f'),
        Metric('storm: peak RSS', 'MiB', figure('storm.peak_rss_mib'), '.1f'),
        Metric('storm: sockets', '', figure('storm.sockets'), '.0f'),
        Metric('storm: writes per object', '', writes_per_object('storm'), '.3f'),
        Metric('storm: control plane CPU', 's', figure('storm.plane_cpu_s'), '.2f'),
        Metric('update: wall', 's', figure('update.seconds'), '.2f'),
        Metric('update: CPU', 's', figure('update.cpu_s'), '.2f'),
        Metric('update: writes per object', '', writes_per_object('update'), '.3f'),
        Metric('delete: wall', 's', figure('delete.seconds'), '.2f'),
        Metric('delete: CPU', 's', figure('delete.cpu_s'), '.2f'),
        Metric('delete: writes per object', '', writes_per_object('delete'), '.3f'),
        Metric('latency: p50', 'ms', figure('latency.from_post_ms.p50'), '.1f'),
        Metric('latency: p95', 'ms', figure('latency.from_post_ms.p95'), '.1f'),
        Metric('latency: p99', 'ms', figure('latency.from_post_ms.p99'), '.1f'),
        Metric('latency: CPU', 's', figure('latency.cpu_s'), '.2f'),
        Metric('burst: the first object is ready', 's', figure('burst.first_s'), '.2f'),
        Metric('burst: wall, from spawn', 's', figure('burst.seconds'), '.2f'),
        Metric('burst: CPU', 's', figure('burst.cpu_s'), '.2f'),
        Metric('burst: peak RSS', 'MiB', figure('burst.peak_rss_mib'), '.1f'),
        Metric('burst: sockets', '', figure('burst.sockets'), '.0f'),
        Metric('burst: failed requests', '', failures('burst'), '.0f'),
        Metric('idle: time to handle all, in batches', 's', figure('idle.sync_s'), '.2f'),
        Metric('idle: CPU to handle all', 's', figure('idle.sync_cpu_s'), '.2f'),
        Metric('idle: peak RSS', 'MiB', figure('idle.peak_rss_mib'), '.1f'),
        Metric('idle: RSS', 'MiB', figure('idle.idle_rss_mib'), '.1f'),
        Metric('idle: CPU over the idle time', 's', figure('idle.idle_cpu_s'), '.2f'),
        Metric('restart: CPU', 's', figure('restart.cpu_s'), '.2f'),
        Metric('restart: RSS', 'MiB', figure('restart.rss_mib'), '.1f'),
        Metric('restart: peak RSS', 'MiB', figure('restart.peak_rss_mib'), '.1f'),
        Metric('large restart: CPU', 's', figure('large_restart.cpu_s'), '.2f'),
        Metric('large restart: RSS', 'MiB', figure('large_restart.rss_mib'), '.1f'),
        Metric('large restart: peak RSS', 'MiB', figure('large_restart.peak_rss_mib'), '.1f'),
        Metric('timers: CPU of 1,000 calls', 's', cpu_of_calls, '.3f'),
        Metric('timers: RSS', 'MiB', figure('timers.rss_mib'), '.1f'),
    )
}

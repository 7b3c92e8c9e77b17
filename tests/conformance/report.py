"""Renders the findings: the table of areas, the deliberate differences, the unexplained ones.

Called by __main__.py. The tests print the same text when they fail.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable

from .comparison import Deliberate
from .running import Result

#: How many requests with differences the report shows per area, and how many fields per request.
SHOWN_REQUESTS = 12
SHOWN_FIELDS = 6


@dataclasses.dataclass
class Area:
    """The figures of one area."""

    name: str
    requests: int = 0
    equal: int = 0
    deliberate: int = 0

    @property
    def share(self) -> float:
        """The share of requests with equal answers, in percent."""
        return 100.0 * self.equal / self.requests if self.requests else 100.0

    @property
    def explained_share(self) -> float:
        """The same share, but deliberate differences do not count against it."""
        return 100.0 * (self.equal + self.deliberate) / self.requests if self.requests else 100.0


def areas(results: Iterable[Result]) -> list[Area]:
    found: dict[str, Area] = {}
    for result in results:
        area = found.setdefault(result.scenario.area, Area(result.scenario.area))
        area.requests += 1
        area.equal += result.equal
        area.deliberate += not result.unexplained and bool(result.deliberate)
    return sorted(found.values(), key=lambda area: area.name)


def total(found: Iterable[Area]) -> Area:
    whole = Area('all')
    for area in found:
        whole.requests += area.requests
        whole.equal += area.equal
        whole.deliberate += area.deliberate
    return whole


def percent(share: float) -> str:
    """Round down, so that only all requests are 100 %."""
    return f'{int(share * 100) / 100:.2f} %'


def table(found: list[Area]) -> list[str]:
    lines = [
        '| area | requests | equal | deliberate | unexplained | share equal |',
        '|---|---:|---:|---:|---:|---:|',
    ]
    for area in [*found, total(found)]:
        rest = area.requests - area.equal - area.deliberate
        lines.append(
            f'| {area.name} | {area.requests} | {area.equal} | {area.deliberate} | {rest} '
            f'| {percent(area.share)} |'
        )
    return lines


def unexplained(results: Iterable[Result], *, limit: int = SHOWN_REQUESTS) -> list[str]:
    by_area: dict[str, list[Result]] = collections.defaultdict(list)
    for result in results:
        if result.unexplained:
            by_area[result.scenario.area].append(result)
    lines = []
    for area in sorted(by_area):
        lines += ['', f'### {area}', '', '```']
        for result in by_area[area][:limit]:
            step = result.step
            lines.append(f'{result.scenario.name} #{result.number}: {step.method} {step.target}')
            lines += [f'    {difference}' for difference in result.unexplained[:SHOWN_FIELDS]]
            if (more := len(result.unexplained) - SHOWN_FIELDS) > 0:
                lines.append(f'    and {more} more fields')
        if (more := len(by_area[area]) - limit) > 0:
            lines.append(f'and {more} more requests')
        lines.append('```')
    return lines


def report(results: list[Result], deliberate: list[Deliberate], version: str) -> str:
    found = areas(results)
    whole = total(found)
    used: collections.Counter[Deliberate] = collections.Counter(
        entry for result in results for entry in result.deliberate
    )
    lines = [
        '# Conformance of the embedded cluster',
        '',
        '`make conformance` writes this page; do not edit it. It sends the same requests to a real',
        f'kube-apiserver {version} and to the embedded cluster, and compares the answers field by',
        'field: code, headers, and body with the managed fields. First, it replaces uids, times,',
        'versions, generated names, addresses and certificates with placeholders.',
        '',
        'The real server runs with the defaults of Kubernetes, except that priority and fairness',
        'and anonymous requests are off, users have static tokens and may do everything, and etcd',
        'does not wait for the disk. The embedded cluster serves discovery and OpenAPI from a',
        'capture of the same version, so they are equal by construction. Most requests ask the',
        'same questions about each kind; the comparison says nothing about anything else.',
        '[The embedded Kubernetes](cluster.md#what-it-is-not) lists what it does not enforce.',
        '',
        f'**{whole.equal} of {whole.requests} requests get equal answers: {percent(whole.share)}**',
        '',
        *table(found),
        '',
        '## Deliberate differences',
        '',
        *(
            f'- {entry.reason} ({used[entry]} requests; `{entry.scenario}`, `{entry.path}`)'
            for entry in deliberate
        ),
        '',
        '## Unexplained differences',
        '',
        f'At most {SHOWN_REQUESTS} requests per area, and {SHOWN_FIELDS} fields per request.',
        *(unexplained(results) or ['', 'None.']),
        '',
    ]
    return '\n'.join(lines)

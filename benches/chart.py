"""Draws small line charts as SVG: panels side by side, with a logarithmic x axis.

Called by scale.py. A plotting library would be a large dependency for one chart.
"""

from __future__ import annotations

import dataclasses
import math

WIDTH, HEIGHT, MARGIN, GAP = 260, 200, 56, 40
COLORS = ('#2563eb', '#ea580c', '#16a34a')


@dataclasses.dataclass(frozen=True)
class Line:
    title: str
    values: list[float]


@dataclasses.dataclass(frozen=True)
class Panel:
    title: str
    xs: list[float]
    lines: list[Line]


def svg(title: str, panels: list[Panel]) -> str:
    width = MARGIN + len(panels) * (WIDTH + GAP + MARGIN)
    height = HEIGHT + 120
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{MARGIN}" y="24" font-size="15">{title}</text>',
    ]
    for number, panel in enumerate(panels):
        left = MARGIN + number * (WIDTH + GAP + MARGIN)
        parts += drawn(panel, left, 60)
    for number, line in enumerate(panels[0].lines):
        x, y, color = MARGIN + number * 180, height - 14, COLORS[number]
        parts.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{color}"/>')
        parts.append(f'<text x="{x + 16}" y="{y}">{line.title}</text>')
    return '\n'.join([*parts, '</svg>', ''])


def drawn(panel: Panel, left: float, top: float) -> list[str]:
    highest = ceiling(max(0.0, *(value for line in panel.lines for value in line.values)))
    low, high = math.log10(min(panel.xs)), math.log10(max(panel.xs))

    def x_of(value: float) -> float:
        return left + WIDTH * (math.log10(value) - low) / ((high - low) or 1)

    def y_of(value: float) -> float:
        return top + HEIGHT * (1 - max(value, 0.0) / highest)

    parts = [f'<text x="{left}" y="{top - 12}">{panel.title}</text>']
    for step in range(5):
        value = highest * step / 4
        y = y_of(value)
        parts.append(f'<path d="M{left} {y:.1f}h{WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for x in panel.xs:
        label = f'{x / 1000:g}k'
        y = top + HEIGHT + 16
        parts.append(f'<text x="{x_of(x):.1f}" y="{y}" text-anchor="middle">{label}</text>')
    for line, color in zip(panel.lines, COLORS, strict=False):
        points = [(x_of(x), y_of(y)) for x, y in zip(panel.xs, line.values, strict=True)]
        path = ' '.join(f'{x:.1f},{y:.1f}' for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]
    return parts


def ceiling(value: float) -> float:
    """Return the next round number whose quarter is round, too."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value)

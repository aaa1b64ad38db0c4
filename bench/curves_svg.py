"""Curves of two brokers as small pictures side by side in one SVG, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT, COLUMNS = 390, 250, 3
LEFT, RIGHT, TOP, BOTTOM = 52, 66, 34, 26
"""Around the area of a curve: figures of the axes, and the value where a line ends."""
COLORS = ("#d9580d", "#5b6b7b", "#2a7f62")
LEAST = 1e-3

Points = Sequence[tuple[int, float]]


class Panel(NamedTuple):
    title: str
    unit: str
    lines: Mapping[str, Points]
    """By the name of the broker: what it costs at each size."""


def draw(panels: Sequence[Panel]) -> str:
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colors = dict(zip(names, COLORS, strict=False))
    rows = -(-len(panels) // COLUMNS)
    space = 'xmlns="http://www.w3.org/2000/svg"'
    size = f"0 0 {COLUMNS * WIDTH} {rows * HEIGHT + 24}"
    parts = [
        f'<svg {space} viewBox="{size}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, (name, color) in enumerate(colors.items()):
        x = LEFT + number * 140
        parts.append(f'<path d="M{x} 12h24" stroke="{color}" stroke-width="2.5"/>')
        parts.append(f'<text x="{x + 30}" y="16">{escape(name)}</text>')
    for number, panel in enumerate(panels):
        x, y = number % COLUMNS * WIDTH, number // COLUMNS * HEIGHT + 24
        parts += [f'<g transform="translate({x},{y})">', *_panel(panel, colors), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel, colors: Mapping[str, str]) -> list[str]:
    points = [point for line in panel.lines.values() for point in line]
    sizes = sorted({size for size, _ in points})
    costs = [max(cost, LEAST) for _, cost in points]
    low, high = _decades(min(costs), max(costs))

    def across(size: int) -> float:
        share = math.log(size / sizes[0]) / max(math.log(sizes[-1] / sizes[0]), LEAST)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def up(cost: float) -> float:
        share = (math.log10(max(cost, LEAST)) - low) / (high - low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = [f'<text x="{LEFT}" y="20" font-weight="bold">{escape(panel.title)}</text>']
    for exponent in range(low, high + 1):
        y = up(10.0**exponent)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**exponent:,g}</text>'
        )
    parts.append(f'<text x="{LEFT - 6}" y="20" text-anchor="end">{escape(panel.unit)}</text>')
    parts += [
        f'<text x="{across(size):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{size:,}</text>'
        for size in sizes
    ]
    ends = {name: up(line[-1][1]) for name, line in panel.lines.items()}
    for name, y in _apart(ends).items():
        line, color = panel.lines[name], colors[name]
        path = " ".join(f"{across(size):.1f},{up(cost):.1f}" for size, cost in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{across(size):.1f}" cy="{up(cost):.1f}" r="3" fill="{color}">'
            f"<title>{escape(name)}, {size:,}: {cost:,.3g} {escape(panel.unit)}</title></circle>"
            for size, cost in line
        ]
        x = across(line[-1][0]) + 8
        parts.append(
            f'<text x="{x:.1f}" y="{y + 4:.1f}" fill="{color}">{_short(line[-1][1])}</text>'
        )
    return parts


def _short(cost: float) -> str:
    return f"{cost:,.0f}" if cost >= 100 else f"{cost:.3g}"


def _decades(lowest: float, highest: float) -> tuple[int, int]:
    low = math.floor(math.log10(lowest))
    return low, max(low + 1, math.ceil(math.log10(highest)))


def _apart(ends: Mapping[str, float]) -> dict[str, float]:
    """Where the figures at the ends of lines stand, so that none covers another."""
    placed: dict[str, float] = {}
    for name, y in sorted(ends.items(), key=lambda end: end[1]):
        placed[name] = max(y, max(placed.values(), default=-math.inf) + 13)
    return placed

"""A flame graph as a small SVG without scripts: tooltips have names and shares."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from html import escape

WIDTH, ROW, MARGIN = 1200, 17, 24
LETTER = 6.4
SMALLEST_SHARE = 0.004
"""Frames that took less are left out."""


class Frame:
    """A function on a stack: in how many samples it was, and what it called."""

    def __init__(self) -> None:
        self.samples = 0
        self.calls: dict[str, Frame] = {}

    def depth(self, least: float) -> int:
        called = (call for call in self.calls.values() if call.samples >= least)
        return 1 + max((call.depth(least) for call in called), default=0)


def draw(title: str, stacks: Iterable[str]) -> str:
    """``stacks``: a line for each, its frames with ``;`` between them and the number of samples."""
    root = _root(stacks)
    if not root.samples:
        raise ValueError("there are no samples")
    least = root.samples * SMALLEST_SHARE
    height = MARGIN + ROW * root.depth(least) + 4
    space = 'xmlns="http://www.w3.org/2000/svg"'
    parts = [
        f'<svg {space} viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="10.5">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="4" y="15" font-size="13">{escape(title)}</text>',
    ]
    scale = WIDTH / root.samples
    _draw("event loop", root, 0.0, 0, scale, root.samples, least, parts)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _root(stacks: Iterable[str]) -> Frame:
    root = Frame()
    for line in stacks:
        names, _, samples = line.rpartition(" ")
        frame = root
        frame.samples += int(samples)
        for name in names.split(";"):
            frame = frame.calls.setdefault(name, Frame())
            frame.samples += int(samples)
    return root


def _draw(
    name: str,
    frame: Frame,
    left: float,
    level: int,
    scale: float,
    total: int,
    least: float,
    parts: list[str],
) -> None:
    width = frame.samples * scale
    top = MARGIN + level * ROW
    label = escape(f"{name}, {frame.samples / total:.1%}")
    parts.append(
        f'<g><title>{label}</title><rect x="{left:.1f}" y="{top}" width="{width:.1f}" '
        f'height="{ROW - 1}" fill="{_color(name)}"/>'
    )
    letters = int((width - 6) / LETTER)
    if letters >= 3:
        text = escape(name if len(name) <= letters else f"{name[: letters - 1]}…")
        parts.append(f'<text x="{left + 3:.1f}" y="{top + 12}">{text}</text>')
    parts.append("</g>")
    for called, call in sorted(frame.calls.items()):
        if call.samples >= least:
            _draw(called, call, left, level + 1, scale, total, least, parts)
            left += call.samples * scale


def _color(name: str) -> str:
    """The same for a name in every graph: warm for Python of ours, cold for everything else."""
    shade = zlib.crc32(name.encode()) % 60
    hue = 20 + shade // 2 if "moldau/" in name else 190 + shade // 2
    return f"hsl({hue},70%,{68 + shade % 12}%)"

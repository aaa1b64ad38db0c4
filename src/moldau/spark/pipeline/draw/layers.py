"""Boxes in columns from left to right, with as few crossings as a few sweeps can do.

An edge that passes a column gets a place in it, so that no line runs through a box.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from moldau.spark.pipeline.draw.model import Drawing

_SWEEPS: Final = 8

Slot = int
"""A box, by its number, or a place that an edge passes: those are numbered on."""


@dataclass
class Layers:
    columns: list[list[Slot]]
    """From left to right, each from top to bottom."""
    links: list[tuple[Slot, Slot]]
    """From one column to the next."""
    passing: set[Slot] = field(default_factory=set)
    """Those that are no boxes."""
    edge_of: dict[tuple[Slot, Slot], int] = field(default_factory=dict)
    """Which edge of the drawing a link is a part of."""


def layers_of(drawing: Drawing) -> Layers:
    depths = _depths(drawing)
    count = max(depths, default=0) + 1
    found = Layers([[] for _ in range(count)], [])
    for box, depth in enumerate(depths):
        found.columns[depth].append(box)
    following = len(drawing.boxes)
    for number, (begin, end) in enumerate(drawing.edges):
        at = begin
        for depth in range(depths[begin] + 1, depths[end] + 1):
            to = end
            if depth < depths[end]:
                to, following = following, following + 1
                found.columns[depth].append(to)
                found.passing.add(to)
            found.links.append((at, to))
            found.edge_of[at, to] = number
            at = to
    _order(found)
    return found


def _depths(drawing: Drawing) -> list[int]:
    """Each box after those that it reads from; sinks are all at the right."""
    depths = [0] * len(drawing.boxes)
    for begin, end in sorted(drawing.edges, key=lambda edge: edge[1]):
        depths[end] = max(depths[end], depths[begin] + 1)
    last = max(depths, default=0)
    return [
        last if box.kind == "sink" else depth
        for box, depth in zip(drawing.boxes, depths, strict=True)
    ]


def _order(layers: Layers) -> None:
    """By the middle of what is linked in the column before, then in the one after, again."""
    before: dict[Slot, list[Slot]] = {}
    after: dict[Slot, list[Slot]] = {}
    for begin, end in layers.links:
        before.setdefault(end, []).append(begin)
        after.setdefault(begin, []).append(end)
    best = [list(column) for column in layers.columns]
    fewest = _crossings(layers)
    # Lines that pass are below the boxes to begin with, or else above them.
    for sweep in range(2 * _SWEEPS):
        if sweep == _SWEEPS:
            for column in layers.columns:
                column.sort(key=lambda slot: (slot not in layers.passing, slot))
        neighbours = before if sweep % 2 == 0 else after
        columns = layers.columns if sweep % 2 == 0 else layers.columns[::-1]
        for column, beside in zip(columns[1:], columns, strict=False):
            column.sort(key=_middle(beside, column, neighbours))
        crossings = _crossings(layers)
        if crossings < fewest:
            best, fewest = [list(column) for column in layers.columns], crossings
    layers.columns[:] = best


def _middle(
    beside: Sequence[Slot], column: Sequence[Slot], neighbours: Mapping[Slot, Sequence[Slot]]
) -> Callable[[Slot], float]:
    places = {slot: index for index, slot in enumerate(beside)}
    own = {slot: index for index, slot in enumerate(column)}

    def middle(slot: Slot) -> float:
        linked = [places[one] for one in neighbours.get(slot, ()) if one in places]
        return sum(linked) / len(linked) if linked else float(own[slot])

    return middle


def _crossings(layers: Layers) -> int:
    places = {slot: at for column in layers.columns for at, slot in enumerate(column)}
    depth = {slot: at for at, column in enumerate(layers.columns) for slot in column}
    links = [(depth[begin], places[begin], places[end]) for begin, end in layers.links]
    return sum(
        one[0] == other[0] and (one[1] - other[1]) * (one[2] - other[2]) < 0
        for index, one in enumerate(links)
        for other in links[:index]
    )


def tops(
    layers: Layers, heights: Mapping[Slot, float], anchors: Mapping[Slot, float], gap: float
) -> dict[Slot, float]:
    """Where each slot begins, from the top: beside what it is linked to, if there is room.

    ``anchors``: how far below a slot's top its lines begin and end.
    """
    linked: dict[Slot, list[Slot]] = {}
    for begin, end in layers.links:
        linked.setdefault(begin, []).append(end)
        linked.setdefault(end, []).append(begin)
    found: dict[Slot, float] = {}
    for column in layers.columns:
        at = 0.0
        for slot in column:
            found[slot] = at
            at += heights[slot] + gap
    for sweep in range(2 * _SWEEPS):
        for column in layers.columns if sweep % 2 == 0 else layers.columns[::-1]:
            wanted = {
                slot: sum(found[one] + anchors[one] for one in linked[slot]) / len(linked[slot])
                - anchors[slot]
                if slot in linked
                else found[slot]
                for slot in column
            }
            found.update(_spread(column, wanted, heights, gap))
    highest = min(found.values(), default=0.0)
    return {slot: top - highest for slot, top in found.items()}


def _spread(
    column: Sequence[Slot], wanted: Mapping[Slot, float], heights: Mapping[Slot, float], gap: float
) -> dict[Slot, float]:
    """As near to what is wanted as order and gaps allow: groups that collide move as one."""
    groups: list[tuple[list[Slot], float, float]] = []  # slots, top, height
    for slot in column:
        group, top, height = [slot], wanted[slot], heights[slot]
        while groups and groups[-1][1] + groups[-1][2] + gap > top:
            above, top_above, height_above = groups.pop()
            shifted = top - height_above - gap
            weight = len(above) / (len(above) + len(group))
            top = top_above * weight + shifted * (1 - weight)
            height = height_above + gap + height
            group = above + group
        groups.append((group, top, height))
    found = {}
    for group, top, _ in groups:
        for slot in group:
            found[slot] = top
            top += heights[slot] + gap
    return found

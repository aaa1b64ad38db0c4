"""The drawing in characters: boxes in columns, lines between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.spark.pipeline.draw.layers import Layers, layers_of, tops
from moldau.spark.pipeline.draw.model import Box, Drawing
from moldau.spark.pipeline.draw.svg import shorten, shown_columns

if TYPE_CHECKING:
    from rich.text import Text

_UP, _RIGHT, _DOWN, _LEFT = 1, 2, 4, 8
_LINES: Final = {
    _LEFT | _RIGHT: "─", _UP | _DOWN: "│", _RIGHT | _DOWN: "╭", _LEFT | _DOWN: "╮",
    _UP | _RIGHT: "╰", _UP | _LEFT: "╯", _UP | _DOWN | _RIGHT: "├", _UP | _DOWN | _LEFT: "┤",
    _LEFT | _RIGHT | _DOWN: "┬", _LEFT | _RIGHT | _UP: "┴", _UP | _DOWN | _LEFT | _RIGHT: "┼",
    _LEFT: "─", _RIGHT: "─", _UP: "│", _DOWN: "│",
}  # fmt: skip
_STYLES: Final = {"source": "cyan", "step": "magenta", "sink": "green"}
_LONGEST: Final = 34
_ANCHOR: Final = 1
"""The row of a box at which lines begin and end: that of its name."""


def drawn(drawing: Drawing) -> list[Text]:
    """Lines for a terminal, as long as they need to be."""
    return _Sheet(drawing, layers_of(drawing)).lines()


def listed(drawing: Drawing) -> list[Text]:
    """The same where there is no room to draw: box after box, and what each reads."""
    from rich.text import Text

    found = []
    for number, box in enumerate(drawing.boxes):
        inputs = [drawing.boxes[begin].name for begin, end in drawing.edges if end == number]
        found.append(
            Text.assemble(
                (f"{box.kind:<6} ", _STYLES[box.kind]),
                (shorten(box.name), "bold"),
                ("  ← " if inputs else "", "dim"),
                ", ".join(map(shorten, inputs)),
            )
        )
        found.append(Text(f"       {shorten(box.label, 70)}", "dim"))
        columns, more = shown_columns(box)
        names = [shorten(column.name) for column in columns] + ([more] if more else [])
        if names:
            found.append(Text(f"       {', '.join(names)}"))
    return found


class _Sheet:
    def __init__(self, drawing: Drawing, layers: Layers) -> None:
        self._drawing = drawing
        self._layers = layers
        self._cells: dict[tuple[int, int], tuple[str, str]] = {}
        """Characters and styles by row and column."""
        self._strokes: dict[tuple[int, int], int] = {}
        self._tips: list[tuple[int, int]] = []
        self._column = {slot: at for at, column in enumerate(layers.columns) for slot in column}
        self._rows = [_rows(box) for box in drawing.boxes]
        heights = dict.fromkeys(layers.passing, 1.0)
        anchors = dict.fromkeys(layers.passing, 0.0)
        for number, rows in enumerate(self._rows):
            heights[number], anchors[number] = float(len(rows) + 2), float(_ANCHOR)
        self._tops = {slot: round(top) for slot, top in tops(layers, heights, anchors, 1.0).items()}
        self._part(heights)
        self._anchor = {slot: self._tops[slot] + int(anchors[slot]) for slot in self._tops}
        self._widths = [
            max(
                (max(len(left) + len(right) for left, right, _ in self._rows[slot]) + 4
                 for slot in column if slot not in layers.passing),
                default=4,
            )
            for column in layers.columns
        ]  # fmt: skip
        self._tracks = self._assign_tracks()
        self._lefts = [0]
        for index, width in enumerate(self._widths[:-1]):
            tracks = max((at for (one, _), at in self._tracks.items() if one == index), default=-1)
            self._lefts.append(self._lefts[-1] + width + tracks + 6)

    def _part(self, heights: dict[int, float]) -> None:
        """Rounding may bring neighbours together."""
        for column in self._layers.columns:
            free = 0
            for slot in column:
                self._tops[slot] = max(self._tops[slot], free)
                free = self._tops[slot] + int(heights[slot]) + (slot not in self._layers.passing)

    def _assign_tracks(self) -> dict[tuple[int, int], int]:
        """A column of the gap for what bends from a slot, by gap and slot."""
        found: dict[tuple[int, int], int] = {}
        for gap in range(len(self._layers.columns) - 1):
            bending = sorted(
                {
                    begin
                    for begin, end in self._layers.links
                    if self._column[begin] == gap and self._anchor[begin] != self._anchor[end]
                },
                key=lambda slot: self._anchor[slot],
                reverse=True,
            )
            found.update({(gap, slot): at for at, slot in enumerate(bending)})
        return found

    def lines(self) -> list[Text]:
        from rich.text import Text

        for begin, end in self._layers.links:
            self._line(begin, end)
        for slot in self._layers.passing:
            left = self._lefts[self._column[slot]]
            self._across(self._anchor[slot], left, left + self._widths[self._column[slot]] - 1)
        for place, stroke in self._strokes.items():
            self._cells[place] = (_LINES[stroke], "dim")
        for place in self._tips:
            self._cells[place] = ("▶", "dim")
        for number, box in enumerate(self._drawing.boxes):
            self._box(number, box)
        height = max(row for row, _ in self._cells) + 1
        found = []
        for row in range(height):
            line = Text()
            last = max((at for one, at in self._cells if one == row), default=-1)
            for at in range(last + 1):
                line.append(*self._cells.get((row, at), (" ", "")))
            found.append(line)
        return found

    def _line(self, begin: int, end: int) -> None:
        gap = self._column[begin]
        left = self._lefts[gap] + self._widths[gap]
        right = self._lefts[gap + 1] - 1
        first, last = self._anchor[begin], self._anchor[end]
        if first == last:
            self._across(first, left, right)
        else:
            track = left + 1 + self._tracks[gap, begin]
            self._across(first, left, track, right_end=False)
            self._across(last, track, right, left_end=False)
            step = 1 if last > first else -1
            for row in range(first, last, step):
                self._stroke(row, track, _DOWN if step > 0 else _UP)
                self._stroke(row + step, track, _UP if step > 0 else _DOWN)
        if end not in self._layers.passing:
            self._tips.append((last, right))

    def _across(
        self, row: int, first: int, last: int, *, left_end: bool = True, right_end: bool = True
    ) -> None:
        for at in range(first, last + 1):
            stroke = (_LEFT if at > first or left_end else 0) | (
                _RIGHT if at < last or right_end else 0
            )
            self._stroke(row, at, stroke)

    def _stroke(self, row: int, at: int, stroke: int) -> None:
        self._strokes[row, at] = self._strokes.get((row, at), 0) | stroke

    def _box(self, number: int, box: Box) -> None:
        style = _STYLES[box.kind]
        top, left = self._tops[number], self._lefts[self._column[number]]
        width = self._widths[self._column[number]]
        rows = self._rows[number]
        self._write(top, left, f"╭{'─' * (width - 2)}╮", style)
        for offset, (begin, end, how) in enumerate(rows, 1):
            blank = " " * (width - 4 - len(begin) - len(end))
            self._write(top + offset, left, "│ ", style)
            self._write(top + offset, left + 2, begin, how)
            self._write(top + offset, left + 2 + len(begin), blank + end, "dim")
            self._write(top + offset, left + width - 2, " │", style)
        self._write(top + len(rows) + 1, left, f"╰{'─' * (width - 2)}╯", style)

    def _write(self, row: int, at: int, text: str, style: str) -> None:
        for offset, character in enumerate(text):
            self._cells[row, at + offset] = (character, style)


def _rows(box: Box) -> list[tuple[str, str, str]]:
    """What stands at the left, at the right, and how the left is written."""
    columns, more = shown_columns(box)
    once = "" if box.streaming or box.kind != "source" else " once"
    rows = [(shorten(box.name, _LONGEST), f" {box.kind}{once}", "bold")]
    rows.append((shorten(box.label, _LONGEST), "", "dim"))
    rows += [
        (shorten(one.name, _LONGEST), f"  {shorten(one.type, 20)}" if one.type else "", "")
        for one in columns
    ]
    return [*rows, (shorten(more, _LONGEST), "", "dim")] if more else rows

"""The drawing as SVG, written by hand: legible on light and dark grounds, with nothing to fetch."""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape

from moldau.printable import printable
from moldau.spark.pipeline.draw.layers import Layers, layers_of, tops
from moldau.spark.pipeline.draw.model import Box, Column, Drawing

_XMLNS: Final = "http://www.w3.org/2000/svg"
MOST_COLUMNS: Final = 14
_LONGEST: Final = 42
_PAD, _ROW, _HEAD = 14.0, 17.0, 48.0
_GAP_X, _GAP_Y, _MARGIN = 64.0, 26.0, 24.0
_TITLE: Final = 40.0
_ANCHOR: Final = 24.0
_NARROWEST: Final = 168.0
_NAME_EM, _LABEL_EM, _MONO_EM = 8.2, 6.0, 6.7
"""Widths of characters, by and large: what reads a drawing chooses its own fonts."""

STYLE: Final = """
.ground{fill:#ffffff}.title{font:600 17px FONT;fill:#1f2430}.legend{font:12px FONT;fill:#667085}
.box{fill:#ffffff}.rim{fill:none;stroke:#d5dae3}
.source .band{fill:#0e7490}.step .band{fill:#6d5bd0}.sink .band{fill:#15803d}
.source .head{fill:#ecf8fb}.step .head{fill:#f3f1fd}.sink .head{fill:#edf9f1}
.name{font:600 14px FONT;fill:#1f2430}.label{font:11.5px FONT;fill:#667085}
.column{font:11px MONO;fill:#344054}.type,.more{font:11px MONO;fill:#98a2b3}
.edge{fill:none;stroke:#98a2b3;stroke-width:1.6}.still{stroke-dasharray:5 4}
.tip{fill:#98a2b3}
@media (prefers-color-scheme:dark){
.ground{fill:#14171f}.title,.name{fill:#f2f4f7}.legend,.label{fill:#98a2b3}
.box{fill:#1b1f2a}.rim{stroke:#343b4b}
.source .head{fill:#12303a}.step .head{fill:#272344}.sink .head{fill:#14301f}
.source .band{fill:#22a7c7}.step .band{fill:#9485f0}.sink .band{fill:#3fb56b}
.column{fill:#d0d5dd}.type,.more{fill:#7d8799}.edge{stroke:#667085}.tip{fill:#667085}
}""".replace(
    "FONT", "system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
).replace("MONO", "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace")


def svg_of(drawing: Drawing) -> str:
    return _Canvas(drawing, layers_of(drawing)).text()


class _Canvas:
    def __init__(self, drawing: Drawing, layers: Layers) -> None:
        self._drawing = drawing
        self._layers = layers
        heights = dict.fromkeys(layers.passing, 2.0)
        anchors = dict.fromkeys(layers.passing, 1.0)
        for number, box in enumerate(drawing.boxes):
            heights[number] = _height(box)
            anchors[number] = _ANCHOR
        self._anchors = anchors
        self._tops = {
            slot: top + _MARGIN + _TITLE
            for slot, top in tops(layers, heights, anchors, _GAP_Y).items()
        }
        self._widths = [
            max(_width(drawing.boxes[slot]) for slot in column if slot not in layers.passing)
            for column in layers.columns
        ]
        self._lefts = [
            _MARGIN + sum(self._widths[:index]) + index * _GAP_X
            for index in range(len(self._widths))
        ]
        self._column = {slot: at for at, column in enumerate(layers.columns) for slot in column}
        bottoms = [self._tops[slot] + heights[slot] for slot in self._tops]
        self.height = max(bottoms, default=_TITLE) + _MARGIN + 20
        self.width = self._lefts[-1] + self._widths[-1] + _MARGIN

    def text(self) -> str:
        title = escape(printable(self._drawing.title))
        wide, high = round(self.width), round(self.height)
        size = f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
        lines = [
            f'<svg xmlns="{_XMLNS}" {size} role="img" aria-label="pipeline {title}">',
            f"<title>pipeline {title}</title>",
            f"<style>{STYLE}</style>",
            '<rect class="ground" width="100%" height="100%"/>',
            f'<text class="title" x="{_MARGIN:.0f}" y="{_MARGIN + 14:.0f}">{title}</text>',
        ]
        lines += [self._edge(number) for number in range(len(self._drawing.edges))]
        lines += [
            self._box(box, self._lefts[self._column[number]], self._tops[number],
                      self._widths[self._column[number]])
            for number, box in enumerate(self._drawing.boxes)
        ]  # fmt: skip
        if any(not box.streaming for box in self._drawing.boxes):
            lines.append(
                f'<text class="legend" x="{_MARGIN:.0f}" y="{self.height - 14:.0f}">'
                "dashed: read once, no stream</text>"
            )
        return "\n".join([*lines, "</svg>", ""])

    def _edge(self, number: int) -> str:
        """One line through all places that it passes."""
        links = [link for link, edge in self._layers.edge_of.items() if edge == number]
        path = ""
        for begin, end in links:
            x1 = self._lefts[self._column[begin]] + self._widths[self._column[begin]]
            x2 = self._lefts[self._column[end]]
            y1, y2 = (self._tops[slot] + self._anchors[slot] for slot in (begin, end))
            if begin in self._layers.passing:
                path += f"L{x1:.1f} {y1:.1f}"
            else:
                path += f"M{x1:.1f} {y1:.1f}"
            if end not in self._layers.passing:
                x2 -= 7
            half = (x2 - x1) / 2
            path += f"C{x1 + half:.1f} {y1:.1f} {x2 - half:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
        begin, end = self._drawing.edges[number]
        still = "" if self._drawing.boxes[begin].streaming else " still"
        tip = f"M{x2:.1f} {y2 - 4:.1f}l7 4l-7 4z"
        return f'<path class="edge{still}" d="{path}"/><path class="tip" d="{tip}"/>'

    def _box(self, box: Box, x: float, y: float, width: float) -> str:
        height = _height(box)
        size = f'width="{width:.1f}" height="{height:.1f}"'
        at = f'x="{x:.1f}" y="{y:.1f}"'
        clip = f"c{x:.0f}-{y:.0f}"
        said = escape(printable(f"{box.name}: {box.label}"))
        lines = [
            f'<g class="{box.kind}"><title>{said}</title>',
            f'<clipPath id="{clip}"><rect {at} {size} rx="8"/></clipPath>',
            f'<rect class="box" {at} {size} rx="8"/>',
            f'<g clip-path="url(#{clip})">',
            f'<rect class="head" {at} width="{width:.1f}" height="{_HEAD:.1f}"/>',
            f'<rect class="band" {at} width="4" height="{height:.1f}"/></g>',
            f'<rect class="rim" {at} {size} rx="8"/>',
            _text("name", x + _PAD, y + 20, box.name),
            _text("label", x + _PAD, y + 37, box.label),
        ]
        row = y + _HEAD + 16
        columns, more = shown_columns(box)
        for column in columns:
            lines.append(_text("column", x + _PAD, row, column.name))
            lines.append(_text("type", x + width - _PAD, row, column.type, "end"))
            row += _ROW
        if more:
            lines.append(_text("more", x + _PAD, row, more))
        return "\n".join([*lines, "</g>"])


def shown_columns(box: Box) -> tuple[tuple[Column, ...], str]:
    """As many as there is room for, and what is to be said of the others."""
    if len(box.columns) <= MOST_COLUMNS:
        return box.columns, box.more
    left = len(box.columns) - MOST_COLUMNS + 1
    return box.columns[: MOST_COLUMNS - 1], f"… {left} more"


def shorten(text: str, longest: int = _LONGEST) -> str:
    text = printable(" ".join(text.split()))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _height(box: Box) -> float:
    columns, more = shown_columns(box)
    rows = len(columns) + bool(more)
    return _HEAD + (rows * _ROW + 10 if rows else 0)


def _width(box: Box) -> float:
    columns, more = shown_columns(box)
    texts = [
        len(shorten(box.name)) * _NAME_EM,
        len(shorten(box.label)) * _LABEL_EM,
        len(shorten(more)) * _MONO_EM,
        *((len(shorten(one.name)) + len(shorten(one.type, 24)) + 2) * _MONO_EM for one in columns),
    ]
    return max(_NARROWEST, max(texts) + 2 * _PAD)


def _text(kind: str, x: float, y: float, text: str, anchor: str = "") -> str:
    if not text:
        return ""
    where = f' text-anchor="{anchor}"' if anchor else ""
    short = shorten(text, 24 if kind == "type" else _LONGEST)
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{where}>{escape(short)}</text>'

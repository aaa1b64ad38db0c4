"""Lines over time as SVG inside of a page, whose style sheet has the colours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from statistics import median
from typing import Final, NamedTuple

from moldau.printable import printable
from moldau.spark.pipeline.report.series import Event, Point, Series
from moldau.spark.pipeline.report.words import Words

WIDTH, HEIGHT = 560.0, 190.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 10.0, 10.0, 24.0
COLOURS: Final = 6
_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
_DAY: Final = 86400
_MOST_TICKS: Final = 6
_GAP: Final = 5
"""Times the usual pause, after which a line is interrupted."""

Format = Callable[[float], str]


class Span(NamedTuple):
    """The time that all charts of a page show."""

    first: float
    last: float


def chart(title: str, lines: Series, span: Span, words: Words, events: Sequence[Event] = ()) -> str:
    """A figure; empty if there is nothing to show."""
    known = {name: points for name, points in lines.items() if points}
    if not known:
        return ""
    top = max((one.value for points in known.values() for one in points), default=0.0)
    unit, show = words.unit(top), words.show
    ticks = [unit * at for at in value_ticks(top / unit)]
    frame = _Frame(span, ticks[-1])
    parts = [
        f'<svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" aria-label="{escape(title)}">',
        *(_value_tick(frame, at, show) for at in ticks),
        *(_time_tick(frame, at, text) for at, text in time_ticks(span)),
        *(_event(frame, one) for one in events if span.first <= one.time <= span.last),
        *(_line(frame, index, points) for index, points in enumerate(known.values())),
        *_hovers(frame, known, show),
        "</svg>",
    ]
    names = "".join(
        f'<span class="key k{index % COLOURS}">{escape(printable(name))}</span>'
        for index, name in enumerate(known)
    )
    last = " · ".join(show(points[-1].value) for points in known.values())
    return (
        f'<figure><figcaption><b>{escape(title)}</b><span class="now">{escape(last)}</span>'
        f'</figcaption>{"".join(parts)}<div class="keys">{names}</div></figure>'
    )


class _Frame:
    def __init__(self, span: Span, top: float) -> None:
        self._span = span
        self._top = top or 1.0

    def x(self, time: float) -> float:
        length = max(1e-9, self._span.last - self._span.first)
        return _LEFT + (time - self._span.first) / length * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - value / self._top * (HEIGHT - _TOP - _BOTTOM)


def value_ticks(top: float) -> list[float]:
    """From nothing to a round number above all values."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    count = math.ceil(top / step - 1e-9)
    return [step * at for at in range(count + 1)]


def time_ticks(span: Span) -> list[tuple[float, str]]:
    length = max(1.0, span.last - span.first)
    days = (_DAY * factor for factor in (1, 2, 7, 14, 30, 90, 365))
    step = next((one for one in (*_STEPS, *days) if length / one <= _MOST_TICKS), _DAY * 365)
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < _DAY else "%d %b"
    first = math.ceil(span.first / step) * step
    return [
        (float(at), datetime.fromtimestamp(at, UTC).strftime(form))
        for at in range(first, int(span.last) + 1, step)
    ]


def _value_tick(frame: _Frame, at: float, show: Format) -> str:
    y = frame.y(at)
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{y + 3.5:.1f}" text-anchor="end">'
        f"{escape(show(at))}</text>"
    )


def _time_tick(frame: _Frame, at: float, text: str) -> str:
    x = frame.x(at)
    anchor = "end" if x > WIDTH - 34 else "start" if x < _LEFT + 24 else "middle"
    return f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 7}" text-anchor="{anchor}">{text}</text>'


def _event(frame: _Frame, event: Event) -> str:
    x = frame.x(event.time)
    said = escape(printable(f"{event.state} {event.error}".strip()))
    return (
        f'<line class="event {escape(event.state)}" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" '
        f'y2="{HEIGHT - _BOTTOM}"><title>{said}</title></line>'
    )


def _line(frame: _Frame, index: int, points: Sequence[Point]) -> str:
    colour = f"k{index % COLOURS}"
    lines, areas, dots = "", "", ""
    floor = HEIGHT - _BOTTOM
    for part in _unbroken(points):
        places = [(frame.x(one.time), frame.y(one.value)) for one in part]
        (first, y), (last, _) = places[0], places[-1]
        if len(places) == 1:
            dots += f'<circle class="dot {colour}" cx="{first:.1f}" cy="{y:.1f}" r="2.5"/>'
            continue
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        lines += path
        areas += f"{path}L{last:.1f} {floor}L{first:.1f} {floor}Z"
    filled = f'<path class="area {colour}" d="{areas}"/>' if index == 0 and areas else ""
    return f'{filled}<path class="line {colour}" d="{lines}"/>{dots}' if lines else dots


def _unbroken(points: Sequence[Point]) -> list[list[Point]]:
    """Parts without a time in which nothing was reported."""
    gaps = [other.time - one.time for one, other in itertools.pairwise(points)]
    longest = _GAP * median(gaps) if gaps else 0.0
    found = [[points[0]]]
    for gap, point in zip(gaps, points[1:], strict=True):
        if gap > longest:
            found.append([])
        found[-1].append(point)
    return found


def _hovers(frame: _Frame, lines: Series, show: Format) -> Iterable[str]:
    """A stripe for each moment, which says what was then: browsers show it beside the pointer."""
    moments = sorted({point.time for points in lines.values() for point in points})
    ends = [(one + other) / 2 for one, other in itertools.pairwise(moments)]
    bounds = [frame.x(at) for at in (2 * moments[0] - (ends or moments)[0], *ends)]
    bounds.append(frame.x(2 * moments[-1] - (ends or moments)[-1]))
    at = {name: {point.time: point.value for point in points} for name, points in lines.items()}
    for moment, left, right in zip(moments, bounds, bounds[1:], strict=False):
        said = [datetime.fromtimestamp(moment, UTC).strftime("%d %b %H:%M:%S UTC")]
        said += [
            f"{printable(name)}: {show(values[moment])}"
            for name, values in at.items()
            if moment in values
        ]
        width = max(2.0, right - left)
        yield (
            f'<rect class="hover" x="{left:.1f}" y="{_TOP}" width="{width:.1f}" '
            f'height="{HEIGHT - _TOP - _BOTTOM}"><title>{escape(chr(10).join(said))}</title></rect>'
        )

"""Numbers over time, out of the lines of a history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from statistics import fmean
from typing import Any, Final, NamedTuple

from moldau.spark.pipeline.runs.history import Line

MOST_POINTS: Final = 240
"""Of a line in a chart: more cannot be told apart."""
_NO_WATERMARK: Final = "1970-01-01T00:00:00"

Merge = Callable[[Iterable[float]], float]


class Point(NamedTuple):
    time: float
    """Seconds since the epoch."""
    value: float


Series = Mapping[str, Sequence[Point]]
"""By sink, or whatever else a line is of."""


class Event(NamedTuple):
    time: float
    state: str
    error: str


def seconds(text: str) -> float:
    """Of a moment as Spark writes it."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def batches(lines: Iterable[Line]) -> list[Line]:
    return [line for line in lines if "event" not in line and "batch" in line]


def events(lines: Iterable[Line]) -> list[Event]:
    return [
        Event(seconds(line["time"]), str(line["event"]), str(line.get("error") or ""))
        for line in lines
        if "event" in line
    ]


def series(
    lines: Iterable[Line], value: Callable[[Line], float | None], merge: Merge = max
) -> dict[str, list[Point]]:
    """What is known of each sink; ``merge`` makes one of those that stand too close."""
    found: dict[str, list[Point]] = {}
    for line in lines:
        number = value(line)
        if number is not None:
            found.setdefault(str(line.get("sink", "")), []).append(
                Point(seconds(line["time"]), number)
            )
    return {name: thinned(points, merge) for name, points in found.items()}


def thinned(points: Sequence[Point], merge: Merge = max, most: int = MOST_POINTS) -> list[Point]:
    """No more than so many, each for its share of the time."""
    if len(points) <= most:
        return sorted(points)
    first, last = min(points).time, max(points).time
    share = (last - first) / most or 1.0
    groups: dict[int, list[Point]] = {}
    for point in points:
        groups.setdefault(min(most - 1, int((point.time - first) / share)), []).append(point)
    return [
        Point(fmean(one.time for one in group), merge(one.value for one in group))
        for _, group in sorted(groups.items())
    ]


def watched(lines: Iterable[Line], key: str) -> dict[str, list[Point]]:
    """What the brokers said of each source."""
    return _by_name(
        lines, lambda line: {name: lag.get(key) for name, lag in line.get("sources", {}).items()}
    )


def dead_letters(lines: Iterable[Line]) -> dict[str, list[Point]]:
    """How many there were in each topic."""
    return _by_name(lines, lambda line: line.get("dead_letters", {}))


def _by_name(
    lines: Iterable[Line], values: Callable[[Line], Mapping[str, float | None]]
) -> dict[str, list[Point]]:
    found: dict[str, list[Point]] = {}
    for line in lines:
        for name, value in values(line).items():
            if value is not None:
                found.setdefault(name, []).append(Point(seconds(line["time"]), value))
    return {name: thinned(points) for name, points in found.items()}


def number(key: str, scale: float = 1.0) -> Callable[[Line], float | None]:
    def value(line: Line) -> float | None:
        found: Any = line.get(key)
        return found * scale if isinstance(found, (int, float)) else None

    return value


def watermark_delay(line: Line) -> float | None:
    """How far the watermark was behind the batch."""
    mark = line.get("watermark")
    if not isinstance(mark, str) or mark.startswith(_NO_WATERMARK):
        return None
    return max(0.0, seconds(line["time"]) - seconds(mark))


def growing(lines: Iterable[Line], count: Callable[[Line], float | None]) -> list[Point]:
    """A count of all sinks, added up."""
    total, found = 0.0, []
    for line in lines:
        more = count(line)
        if more is not None:
            total += more
            found.append(Point(seconds(line["time"]), total))
    return thinned(found)

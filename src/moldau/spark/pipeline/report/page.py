"""The page: what was read and how fast, how far behind, what went wrong. One file, no server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from statistics import fmean, median
from typing import Final

from moldau.printable import printable
from moldau.spark.pipeline.report.charts import Span, chart
from moldau.spark.pipeline.report.series import (
    Event,
    batches,
    dead_letters,
    events,
    growing,
    number,
    seconds,
    series,
    watched,
    watermark_delay,
)
from moldau.spark.pipeline.report.style import STYLE
from moldau.spark.pipeline.report.words import COUNTS, DURATIONS, SIZES, count, duration, moment
from moldau.spark.pipeline.runs.history import Line
from moldau.spark.pipeline.runs.record import RunRecord
from moldau.spark.pipeline.runs.samples import expectations_of
from moldau.spark.pipeline.spec import Pipeline

_MOST_ERRORS: Final = 20
_MOST_BATCHES: Final = 25
_SHOWN_EVENTS: Final = frozenset(("starting", "failed", "restarting", "killed", "stopped"))
_LEGEND: Final = (
    "Times are UTC. Lines stand for starts, ends and failures; the pointer over a chart shows its "
    "numbers."
)


def page(
    pipeline: Pipeline, run: RunRecord | None, lines: Sequence[Line], graph: str, now: float
) -> str:
    """``graph``: SVG of the pipeline, or nothing."""
    done, happened = batches(lines), events(lines)
    times = [seconds(line["time"]) for line in lines]
    span = Span(min(times, default=now), max(times, default=now))
    parts = [
        _head(pipeline, run, span),
        _tiles(lines, run),
        f'<h2>Over time</h2><div class="charts">{_charts(lines, span)}</div>'
        if done
        else '<p class="about">No batch has been reported yet.</p>',
        _expectations(done),
        _errors(happened),
        f'<h2>The pipeline</h2><div class="card graph">{graph}</div>' if graph else "",
        _last(done),
        f"<footer>Written {moment(now)}. {_LEGEND}</footer>",
    ]
    title = escape(printable(pipeline.name))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def _head(pipeline: Pipeline, run: RunRecord | None, span: Span) -> str:
    state = "unknown" if run is None else run.state
    about = [pipeline.description, f"{moment(span.first)} to {moment(span.last)}"]
    if run is not None:
        about.append(f"{run.state} since {run.since}, process {run.pid} on {run.host}")
    about += [pipeline.shown_master, f"checkpoint {pipeline.checkpoint}"]
    said = " · ".join(escape(printable(one)) for one in about if one)
    return (
        f'<div class="top"><h1>{escape(printable(pipeline.name))}</h1>'
        f'<span class="state {state}">{state}</span></div><p class="about">{said}</p>'
    )


def _tiles(lines: Sequence[Line], run: RunRecord | None) -> str:
    done = batches(lines)
    took = [line["batch_ms"] / 1000 for line in done if isinstance(line.get("batch_ms"), int)]
    # Sinks read the same rows: those of the one that has read most are told.
    rows: Counter[str] = Counter()
    for line in done:
        rows[_sink(line)] += line.get("rows") or 0
    last = {_sink(line): line for line in done}
    lags = [line["lag"] for line in last.values() if isinstance(line.get("lag"), int)]
    restarts = 0 if run is None else run.restarts
    late = sum(line.get("late_rows") or 0 for line in done)
    letters = [points[-1].value for points in dead_letters(lines).values() if points]
    tiles = [
        ("rows", count(max(rows.values(), default=0)), False),
        ("batches", count(max(Counter(map(_sink, done)).values(), default=0)), False),
        ("median batch", duration(median(took)) if took else "–", False),
        ("longest batch", duration(max(took)) if took else "–", False),
        ("lag at the end", count(max(lags)) if lags else "–", False),
        ("late rows left out", count(late), late > 0),
        ("restarts", count(restarts), restarts > 0),
    ]
    if letters:
        tiles.append(("dead letters", count(sum(letters)), sum(letters) > 0))
    cells = "".join(
        f'<div class="tile{" bad" if bad else ""}"><b>{value}</b><span>{name}</span></div>'
        for name, value, bad in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def _charts(lines: Sequence[Line], span: Span) -> str:
    done, lags = batches(lines), watched(lines, "records")
    shown = [event for event in events(lines) if event.state in _SHOWN_EVENTS]
    charts = [
        chart("Rows a second", series(done, number("rows_per_second"), fmean), span, COUNTS, shown),
        chart("Rows in a batch", series(done, number("rows"), fmean), span, COUNTS, shown),
        chart("Time of a batch", series(done, number("batch_ms", 1e-3)), span, DURATIONS, shown),
        chart("Lag, in records", lags or series(done, number("lag")), span, COUNTS, shown),
        chart("Lag, in time", watched(lines, "seconds"), span, DURATIONS, shown),
        chart("Watermark behind", series(done, watermark_delay), span, DURATIONS, shown),
    ]
    for title, key, words in (
        ("Rows in state", "state_rows", COUNTS),
        ("Memory of the state", "state_bytes", SIZES),
    ):
        found = series(done, number(key))
        if any(point.value for points in found.values() for point in points):
            charts.append(chart(title, found, span, words, shown))
    late = growing(done, number("late_rows"))
    if late and late[-1].value:
        charts.append(chart("Late rows left out so far", {"all": late}, span, COUNTS, shown))
    letters = dead_letters(lines)
    if any(point.value for points in letters.values() for point in points):
        charts.append(chart("Dead letters", letters, span, COUNTS, shown))
    return "".join(charts)


def _expectations(done: Iterable[Line]) -> str:
    """Rows that passed and failed; a part that several sinks read is counted by one of them."""
    owners: dict[str, str] = {}
    found: dict[str, Counter[str]] = {}
    for line in done:
        for part, rules in expectations_of(line).items():
            if owners.setdefault(part, _sink(line)) == _sink(line):
                for rule, counts in rules.items():
                    found.setdefault(f"{part} · {rule}", Counter()).update(counts)
    if not found:
        return ""
    rows = "".join(
        f'<tr><td>{escape(printable(name))}</td><td class="number">{counts["passed"]:,}</td>'
        f'<td class="number">{counts["failed"]:,}</td><td><span class="bar" '
        f'style="width:{_share(counts) * 240:.0f}px"></span>{_share(counts):.2%}</td></tr>'
        for name, counts in sorted(found.items(), key=lambda item: -_share(item[1]))
    )
    heads = '<th>rule</th><th class="number">passed</th><th class="number">failed</th><th></th>'
    return f'<h2>Expectations</h2><div class="card"><table><tr>{heads}</tr>{rows}</table></div>'


def _share(counts: Counter[str]) -> float:
    return counts["failed"] / max(1, counts.total())


def _errors(happened: Sequence[Event]) -> str:
    failed = [event for event in happened if event.error][-_MOST_ERRORS:]
    if not failed:
        return ""
    rows = "".join(
        f'<tr><td>{moment(event.time)}</td><td>{escape(event.state)}</td><td class="said">'
        f"{escape(printable(event.error))}</td></tr>"
        for event in reversed(failed)
    )
    return (
        '<h2>Errors</h2><div class="card"><table><tr><th>when</th><th>then</th><th>what</th></tr>'
        f"{rows}</table></div>"
    )


def _last(done: Sequence[Line]) -> str:
    if not done:
        return ""
    rows = "".join(
        f"<tr><td>{moment(seconds(line['time']))}</td><td>{escape(printable(str(line['sink'])))}"
        f'</td><td class="number">{line["batch"]}</td>'
        f'<td class="number">{count(line.get("rows") or 0)}</td>'
        f'<td class="number">{duration((line.get("batch_ms") or 0) / 1000)}</td>'
        f'<td class="number">{"–" if line.get("lag") is None else count(line["lag"])}</td></tr>'
        for line in reversed(done[-_MOST_BATCHES:])
    )
    heads = "".join(
        f"<th{kind}>{name}</th>"
        for name, kind in (
            ("when", ""),
            ("sink", ""),
            *((name, ' class="number"') for name in ("batch", "rows", "time", "lag")),
        )
    )
    return f'<h2>Last batches</h2><div class="card"><table><tr>{heads}</tr>{rows}</table></div>'


def _sink(line: Line) -> str:
    return str(line.get("sink", ""))

"""What ``moldau pipeline run`` shows: a live table on a terminal, JSON lines for programs."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from moldau.printable import printable
from moldau.spark.pipeline.expectation_counts import Count, ExpectationCounts
from moldau.spark.pipeline.paths import checkpoint_directory
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.runs.places import place_of
from moldau.spark.pipeline.spec import ConsoleSink, Pipeline

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Report = Callable[[Progress], None]

SPARK_LOG: Final = "spark.log"


class View(NamedTuple):
    """What is told of a run."""

    report: Report
    """A batch is done."""
    tell: Callable[[str], None]
    """It runs, or it is being stopped."""
    log: Path
    """Where what Spark says goes: hundreds of lines for one record, in two languages."""


@contextmanager
def json_view(pipeline: Pipeline, print_line: Callable[[Any], None]) -> Iterator[View]:
    """A line for each batch, at once."""

    def report(progress: Progress) -> None:
        print_line(asdict(progress))
        sys.stdout.flush()

    log = _spark_log(pipeline)
    with _stderr_to(log):
        yield View(report, lambda _: None, log)


@contextmanager
def live_view(pipeline: Pipeline) -> Iterator[View]:
    """A row for each sink on stderr, if somebody looks at it.

    What Spark's process and its workers say would be drawn over it, and goes to a file.
    """
    log = _spark_log(pipeline)
    if not sys.stderr.isatty() or any(isinstance(one, ConsoleSink) for one in pipeline.sinks):
        with _stderr_to(log):
            yield View(lambda _: None, lambda _: None, log)
        return
    from rich.console import Console
    from rich.live import Live

    table = LiveTable(pipeline)
    with _stderr_to(log) as terminal:
        console = Console(file=terminal, highlight=False)
        with Live(table, console=console, refresh_per_second=8), _cleared_when_resized(console):
            try:
                yield View(table.add, table.tell, log)
                table.tell("ended")
            except BaseException:
                table.tell("failed")
                raise


def _spark_log(pipeline: Pipeline) -> Path:
    directory = checkpoint_directory(pipeline) or place_of(pipeline)
    directory.mkdir(parents=True, exist_ok=True)
    return directory / SPARK_LOG


@contextmanager
def _stderr_to(log: Path) -> Iterator[TextIO]:
    """Stderr of this process and its children goes to a file; yields what it was before."""
    before = os.dup(sys.stderr.fileno())
    with os.fdopen(before, "w", encoding=sys.stderr.encoding) as terminal:
        with log.open("ab") as file:
            os.dup2(file.fileno(), sys.stderr.fileno())
        try:
            yield terminal
        finally:
            os.dup2(before, sys.stderr.fileno())


@contextmanager
def _cleared_when_resized(console: Console) -> Iterator[None]:
    """A terminal that gets narrower breaks lines, so that a table cannot be drawn over itself."""
    before = signal.signal(signal.SIGWINCH, lambda *_: console.clear())
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


class LiveTable:
    """Drawn anew several times a second, as wide as the terminal is at that moment."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._name = pipeline.name
        self._master = pipeline.shown_master
        self._begin = time.monotonic()
        self._state = "starting Spark"
        self._last: dict[str, Progress | None] = {sink.name: None for sink in pipeline.sinks}
        self._rows = dict.fromkeys(self._last, 0)
        self._expectations = ExpectationCounts()

    def add(self, progress: Progress) -> None:
        self._rows[progress.sink] += progress.rows
        self._last[progress.sink] = progress
        self._expectations.add(progress)

    def tell(self, state: str) -> None:
        self._state = state

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        passed = timedelta(seconds=int(time.monotonic() - self._begin))
        spinning = _SPINNER[int(time.monotonic() * 8) % len(_SPINNER)]
        yield Text.assemble(
            _SIGNS.get(self._state, (spinning, "green")),
            (" pipeline ", "dim"),
            (printable(self._name), "bold"),
            f" · {self._state}",
            " (Ctrl-C again does not wait)" if self._state == "stopping" else "",
            (f" · {passed} · {printable(self._master)}", "dim"),
            overflow="ellipsis",
            no_wrap=True,
        )
        yield table_of(self._last, self._rows, options.max_width)
        if totals := self._expectations.totals():
            yield expectations_table(totals)


_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SIGNS: Final = {"ended": ("✓", "green"), "failed": ("✗", "red")}
_WIDE: Final = 100
_NARROW: Final = 70


def table_of(
    last: Mapping[str, Progress | None], rows: Mapping[str, int], width: int = _WIDE
) -> Any:
    """The sinks; in a narrow window, what matters most of them."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    columns: dict[str, Callable[[Progress], Any]] = {
        "READ": lambda one: _bar(rows[one.sink], one.lag, 16 if width >= _WIDE else 8),
        "ROWS": lambda one: f"{rows[one.sink]:,}",
        "ROWS/S": lambda one: f"{one.rows_per_second:,.0f}",
        "LAG": lambda one: "-" if one.lag is None else f"{one.lag:,}",
        "BATCH": lambda one: str(one.batch),
        "TIME": lambda one: f"{one.batch_ms / 1000:.1f} s",
        "WATERMARK": lambda one: _moment(one.watermark),
        "LATE": lambda one: f"{one.late_rows:,}",
    }
    if width < _WIDE:
        del columns["LATE"]
    if width < _NARROW:
        del columns["READ"], columns["BATCH"], columns["WATERMARK"]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    table.add_column("SINK", no_wrap=True, overflow="ellipsis")
    for name in columns:
        justify: Any = "left" if name in ("READ", "WATERMARK") else "right"
        table.add_column(name, justify=justify, no_wrap=True, min_width=len(name))
    for sink, one in last.items():
        table.add_row(
            Text(printable(sink)), *("-" if one is None else cell(one) for cell in columns.values())
        )
    return table


def expectations_table(totals: Iterable[Count]) -> Any:
    """The rules for rows, and how many passed."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    table.add_column("EXPECTATION", no_wrap=True, overflow="ellipsis")
    for name in ("PASSED", "FAILED"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in totals:
        table.add_row(
            Text(printable(f"{one.part}: {one.rule}")),
            f"{one.passed:,}",
            Text(f"{one.failed:,}", "red" if one.failed else ""),
        )
    return table


def _bar(rows: int, lag: int | None, width: int) -> Any:
    """How much of what was there to read has been read."""
    from rich.progress_bar import ProgressBar

    if lag is None:
        return "-"
    # Of nothing all is read.
    return ProgressBar(total=max(1, rows + lag), completed=rows if lag else 1 + rows, width=width)


def _moment(watermark: str | None) -> str:
    """Spark's ``2026-01-01T12:00:00.000Z``, to the second; the epoch stands for none yet.

    A backfill closes all windows by a time that no record has.
    """
    if watermark is None or watermark.startswith("1970-01-01T00:00:00"):
        return "-"
    if watermark.startswith("9000-"):
        return "all closed"
    return watermark[:19].replace("T", " ")

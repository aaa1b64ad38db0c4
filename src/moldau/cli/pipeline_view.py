"""What ``moldau pipeline run`` shows: a live table on a terminal, JSON lines for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from moldau.spark.pipeline.progress import Progress

Report = Callable[[Progress], None]


@contextmanager
def json_lines(print_line: Callable[[Any], None]) -> Iterator[Report]:
    """A line for each batch, at once."""

    def report(progress: Progress) -> None:
        print_line(asdict(progress))
        sys.stdout.flush()

    yield report


@contextmanager
def live_view(name: str) -> Iterator[Report]:
    """A row for each sink on stderr, if somebody looks at it."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.live import Live

    rows: dict[str, Progress] = {}
    total: dict[str, int] = {}
    with Live(view(name, rows, total), console=Console(stderr=True), refresh_per_second=8) as live:

        def report(progress: Progress) -> None:
            rows[progress.sink] = progress
            total[progress.sink] = total.get(progress.sink, 0) + progress.rows
            live.update(view(name, rows, total))

        yield report


def view(name: str, rows: dict[str, Progress], total: dict[str, int]) -> Any:
    """The live table."""
    from rich import box
    from rich.table import Table

    table = Table(title=f"pipeline {name}", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("SINK", "BATCH", "ROWS", "ROWS/S", "LAG", "WATERMARK", "BATCH TIME", "LATE"):
        table.add_column(column, justify="left" if column in ("SINK", "WATERMARK") else "right")
    for sink, progress in rows.items():
        table.add_row(
            sink,
            str(progress.batch),
            f"{total[sink]:,}",
            f"{progress.rows_per_second:,.0f}",
            "-" if progress.lag is None else f"{progress.lag:,}",
            progress.watermark or "-",
            f"{progress.batch_ms / 1000:.1f} s",
            f"{progress.late_rows:,}",
        )
    if not rows:
        table.add_row("starting", *["-"] * 7)
    return table

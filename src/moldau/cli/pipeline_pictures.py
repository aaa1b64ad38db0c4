"""``moldau pipeline``: graph, report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.exit_codes import CommandError
from moldau.cli.output import on_terminal, print_line, print_text, warn
from moldau.cli.pipeline_files import File, Parameters, load
from moldau.extras import how_to_install

if TYPE_CHECKING:
    from moldau.spark.pipeline.draw.model import Drawing
    from moldau.spark.pipeline.spec import Pipeline


def graph(
    file: File,
    parameter: Parameters = [],  # noqa: B006 - typer copies it
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw into a file instead.")
    ] = None,
) -> None:
    """Draw sources, steps and sinks with their columns; Spark is not needed for it."""
    drawing = _drawing(load(file, parameter))
    if svg is not None:
        from moldau.spark.pipeline.draw.svg import svg_of

        _write(svg, svg_of(drawing))
        return
    from moldau.spark.pipeline.draw.terminal import drawn, listed

    lines = drawn(drawing)
    if not on_terminal():
        print_text("\n".join(line.plain for line in lines))
        return
    from rich.console import Console

    console = Console(highlight=False)
    if max(line.cell_len for line in lines) > console.width:
        lines = listed(drawing)
    for line in lines:
        console.print(line, soft_wrap=True)


def report(
    file: File,
    parameter: Parameters = [],  # noqa: B006
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="NAME.html if it is not given."),
    ] = None,
) -> None:
    """Write a page about what a pipeline has done so far: it opens in any browser."""
    import time

    from moldau.spark.pipeline.draw.svg import svg_of
    from moldau.spark.pipeline.report.page import page
    from moldau.spark.pipeline.runs.history import History
    from moldau.spark.pipeline.runs.places import place_of
    from moldau.spark.pipeline.runs.record import read_record

    pipeline = load(file, parameter)
    place = place_of(pipeline)
    lines = History(place).read()
    if not lines:
        raise CommandError(
            f"There is nothing to report of pipeline {pipeline.name}: no run has left a history in "
            f"{place}"
        )
    text = page(pipeline, read_record(place), lines, svg_of(_drawing(pipeline)), time.time())
    _write(output or Path(f"{pipeline.name}.html"), text)


def _drawing(pipeline: Pipeline) -> Drawing:
    from moldau.spark.pipeline.draw.model import drawing_of

    try:
        from moldau.spark.pipeline.sql.check import check_sql
    except ModuleNotFoundError as error:
        warn(f"Columns are not shown, which needs {error.name}: {how_to_install('spark')}")
        return drawing_of(pipeline, {})
    return drawing_of(pipeline, check_sql(pipeline).frames)


def _write(path: Path, text: str) -> None:
    if str(path) == "-":
        sys.stdout.write(text)
        return
    path.write_text(text, encoding="utf-8")
    print_line(str(path))

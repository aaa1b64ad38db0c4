"""Printing: tables for eyes, tab-separated lines for pipes, JSON on demand.

Data goes to stdout; everything said about it goes to stderr. ``rich`` is imported only when a
terminal shows a table or a progress bar.

Commands print by these functions alone: names and messages come from clusters, and what of them
is no visible character is escaped here (``moldau.printable``). In pipes, too, where a line break
in a name would be another row; JSON has everything as it is.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from moldau.printable import LONGEST_LINE, printable, printable_json, printable_lines


def on_terminal() -> bool:
    """Returns whether somebody looks at stdout."""
    return sys.stdout.isatty()


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    optional: Sequence[str] = (),
) -> None:
    """A table on a terminal, else a line per row: fields separated by tabs, no header.

    ``optional`` columns are left out, in this order, where a terminal has no room for them.
    """
    if on_terminal():
        from moldau.cli.tables import print_on_terminal

        left_out = print_on_terminal(columns, list(rows), optional=optional)
        if left_out:
            note(f"No room for {', '.join(left_out)}: a wider terminal, or --json, shows all.")
        return
    for row in rows:
        print("\t".join(printable(_text(cell)) for cell in row))


def print_line(text: str = "", *, flush: bool = False) -> None:
    """One line of data."""
    print(printable(text), flush=flush)


def print_text(text: str) -> None:
    """Text of several lines, such as a help or a traceback."""
    print(printable_lines(text))


def print_json(document: Any) -> None:
    """One document, indented: it is data, and people read it too."""
    import msgspec

    print(printable_json(msgspec.json.format(msgspec.json.encode(document), indent=2)))


def print_json_line(document: Any) -> None:
    """One element of a stream (NDJSON)."""
    import msgspec

    print(printable_json(msgspec.json.encode(document)))


def write_records(rendered: Iterable[bytes]) -> None:
    """What a renderer made of records (``moldau.cli.render``), at once."""
    sys.stdout.buffer.write(b"".join(rendered))
    sys.stdout.buffer.flush()


def clear_terminal() -> None:
    """For what is shown again and again."""
    print("\x1b[H\x1b[2J", end="")


def note(text: str) -> None:
    """Talk: shown on stderr, and only when somebody reads along."""
    if sys.stderr.isatty():
        tell(printable(text, LONGEST_LINE))


def tell(text: str) -> None:
    """Talk that programs get, too: text of one or several lines on stderr."""
    print(printable_lines(text), file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Something the user should know even when a program runs the command."""
    print(f"moldau: {printable(text, LONGEST_LINE)}", file=sys.stderr)


def say(sentence: str) -> None:
    """One line of complaint."""
    prefix = "moldau: "
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        prefix = f"\x1b[1;31m{prefix}\x1b[0m"
    print(prefix + printable(sentence, LONGEST_LINE), file=sys.stderr)


def confirm(question: str, *, yes: bool) -> None:
    """Ask if somebody can answer, unless ``yes`` was the answer beforehand."""
    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        import typer

        typer.confirm(printable(question, LONGEST_LINE), abort=True, err=True)


class Progress(Protocol):
    """What a long command reports to."""

    def advance(self, amount: int) -> None: ...


class _Silent:
    def advance(self, amount: int) -> None: ...


class _Bar:
    """Passes progress on twenty times a second: drawing must not slow down what it measures."""

    def __init__(self, show: Callable[[int], object]) -> None:
        self._show = show
        self._unshown = 0
        self._next = 0.0

    def advance(self, amount: int) -> None:
        self._unshown += amount
        now = time.monotonic()
        if now >= self._next:
            self._show(self._unshown)
            self._unshown = 0
            self._next = now + 0.05


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Progress]:
    """A bar on stderr if it is a terminal; ``total`` may be unknown."""
    if not sys.stderr.isatty():
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as RichProgress

    label_column = TextColumn("{task.description}", markup=False)
    columns: tuple[Any, ...] = (
        (label_column, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        if total is not None
        else (SpinnerColumn(), label_column, MofNCompleteColumn())
    )
    console = Console(stderr=True)
    with RichProgress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(printable(label), total=total)

        yield _Bar(lambda amount: bar.advance(task, amount))


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, (list, tuple)):
        return ",".join(map(str, cell)) or "-"
    return str(cell)

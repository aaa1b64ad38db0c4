"""Printing: tables for eyes, tab-separated lines for pipes, JSON on demand.

Data goes to stdout; everything said about it goes to stderr. ``rich`` is imported only when a
terminal shows a table or a progress bar.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol


def on_terminal() -> bool:
    """Returns whether somebody looks at stdout."""
    return sys.stdout.isatty()


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    optional: Sequence[str] = (),
) -> None:
    """A table on a terminal, else a line per row: fields separated by tabs, no header.

    ``optional`` columns are left out, in this order, where a terminal has no room for them.
    """
    if on_terminal():
        from moldau.cli.tables import print_on_terminal

        left_out = print_on_terminal(columns, list(rows), title=title, optional=optional)
        if left_out:
            note(f"No room for {' and '.join(left_out)}: a wider terminal, or --json, shows all.")
        return
    for row in rows:
        print("\t".join(_text(cell) for cell in row))


def print_json(document: Any) -> None:
    """One document, indented: it is data, and people read it too."""
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def print_json_line(document: Any) -> None:
    """One element of a stream (NDJSON)."""
    import msgspec

    print(msgspec.json.encode(document).decode())


def note(text: str) -> None:
    """Talk: shown on stderr, and only when somebody reads along."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


def warn(text: str) -> None:
    """Something the user should know even when a program runs the command."""
    print(f"moldau: {text}", file=sys.stderr)


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

    columns: tuple[Any, ...] = (
        (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        if total is not None
        else (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn())
    )
    console = Console(stderr=True)
    with RichProgress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=total)

        yield _Bar(lambda amount: bar.advance(task, amount))


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, (list, tuple)):
        return ",".join(map(str, cell)) or "-"
    return str(cell)

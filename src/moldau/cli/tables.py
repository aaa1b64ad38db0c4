"""Tables on a terminal, whatever its width.

Names are not broken in two and headings not spelled downwards. A table that is too wide leaves out
columns with nothing in them, then breaks its sentences into lines, then leaves out the columns that
can be missed, and says so. If all that does not help, each row becomes a block of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.printable import printable

if TYPE_CHECKING:
    from rich.table import Table

_EMPTY = "-"
_NARROWEST_SENTENCE = 24
_LONGEST_CELL = 1000


class Layout(NamedTuple):
    """How a table is shown."""

    columns: tuple[int, ...]
    sentences: int | None
    """The column that is broken into lines to make all fit."""
    left_out: tuple[str, ...] = ()
    blocks: bool = False


def cell_text(cell: object) -> str:
    if cell is None:
        return _EMPTY
    if isinstance(cell, (list, tuple)):
        return ", ".join(map(str, cell)) or _EMPTY
    return str(cell)


def choose_layout(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    optional: Sequence[str] = (),
) -> Layout:
    """The fullest layout that fits; ``optional`` columns are left out one by one."""
    from rich.cells import cell_len

    shown = list(range(len(headings)))
    widths = [
        max(cell_len(text) for text in (heading, *(row[index] for row in rows)))
        for index, heading in enumerate(headings)
    ]
    prose = [index for index in shown if any(" " in row[index] for row in rows)]

    def fit(left_out: tuple[str, ...] = ()) -> Layout | None:
        # A space at both ends, and two between columns.
        natural = sum(widths[index] for index in shown) + 2 * len(shown) + 1
        if natural <= width:
            return Layout(tuple(shown), None, left_out)
        longest = max((i for i in prose if i in shown), key=lambda i: widths[i], default=None)
        if longest is None or natural - widths[longest] + _NARROWEST_SENTENCE > width:
            return None
        return Layout(tuple(shown), longest, left_out)

    found = fit()
    if found is None:
        shown = [i for i in shown if any(row[i] not in ("", _EMPTY) for row in rows)]
        found = fit()
    left_out: tuple[str, ...] = ()
    for name in optional:
        index = headings.index(name)
        if found is None and index in shown:
            shown.remove(index)
            left_out += (name,)
            found = fit(left_out)
    return found or Layout(tuple(range(len(headings))), None, blocks=True)


def print_on_terminal(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    optional: Sequence[str] = (),
) -> tuple[str, ...]:
    """Print a table or blocks; returns the columns that were left out."""
    from rich.console import Console

    console = Console()
    texts = [[printable(cell_text(cell), _LONGEST_CELL) for cell in row] for row in rows]
    layout = choose_layout(headings, texts, console.width, optional)
    if not layout.blocks:
        numeric = {
            index
            for index in layout.columns
            if rows and all(isinstance(row[index], (int, float)) for row in rows)
        }
        console.print(_table(headings, texts, layout, numeric))
        return layout.left_out
    for row in texts:
        console.print(_block(headings, row))
        console.print()
    return ()


def _table(
    headings: Sequence[str],
    texts: Sequence[Sequence[str]],
    layout: Layout,
    numeric: set[int],
) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        header_style="bold",
        padding=(0, 1, 0, 0),
    )
    for index in layout.columns:
        table.add_column(
            headings[index],
            justify="right" if index in numeric else "left",
            overflow="fold",
            no_wrap=index != layout.sentences,
        )
    for row in texts:
        table.add_row(*(Text(row[index]) for index in layout.columns))
    return table


def _block(headings: Sequence[str], row: Sequence[str]) -> Table:
    from rich.table import Table
    from rich.text import Text

    block = Table.grid(padding=(0, 2, 0, 0))
    block.add_column(style="bold", no_wrap=True)
    block.add_column(overflow="fold")
    for heading, text in zip(headings, row, strict=True):
        block.add_row(heading, Text(text))
    return block

"""docs/benchmarks.md and the README: what a program found goes between its two markers."""

from __future__ import annotations

import datetime as dt
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from bench.report import Table
from moldau import __version__

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
PICTURES = ROOT / "docs" / "pictures"


def markers(program: str) -> tuple[str, str]:
    begin = f"<!-- {program}: written by python -m bench {program} -->\n"
    return begin, f"<!-- end of {program} -->"


def write(program: str, tables: Sequence[Table], others: float) -> None:
    """``others``: how much of the machine its neighbours took meanwhile."""
    for path, for_readme in ((PAGE, False), (README, True)):
        own = [table for table in tables if table.for_readme is for_readme]
        if own:
            _write(path, program, own, _circumstances(program, others))


def _write(path: Path, program: str, tables: Sequence[Table], circumstances: str) -> None:
    """Replaces what is between the markers of the program; the text around is written by hand."""
    begin, end = markers(program)
    before, found, rest = path.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise RuntimeError(f"{path} has no place for {program}")
    body = "\n".join(table.markdown() for table in tables)
    path.write_text(f"{before}{begin}{circumstances}\n\n{body}{end}{after}")


def _circumstances(program: str, others: float) -> str:
    today = dt.datetime.now(tz=dt.UTC).date()
    return (
        f"`python -m bench {program}`, {today}: Moldau {__version__} on Python "
        f"{platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}; "
        f"others took {others:.0%} of the machine meanwhile."
    )

"""Rows, goals and tables, and how they are shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table as TerminalTable

from bench.figures import Runs

OURS, THEIRS = "Moldau", "Apache Kafka"
MET = {True: "met", False: "**not met**"}


class Goal(NamedTuple):
    """What a row should reach: a bound of its own, or in comparison with Apache Kafka."""

    at_most: float | None = None
    at_most_ratio: float | None = None
    at_least_ratio: float | None = None

    def is_met(self, ours: float, theirs: float | None) -> bool | None:
        """None: there is nobody to compare with."""
        if theirs is None and self.at_most is None:
            return None
        return (self.at_most is None or ours <= self.at_most) and (
            theirs is None
            or (
                (self.at_most_ratio is None or ours <= theirs * self.at_most_ratio)
                and (self.at_least_ratio is None or ours >= theirs * self.at_least_ratio)
            )
        )

    def text(self, unit: str = "") -> str:
        words = []
        if self.at_most is not None:
            words.append(f"≤ {self.at_most:g} {unit}")
        if self.at_most_ratio is not None:
            words.append(f"≤ {self.at_most_ratio:g} ×")
        if self.at_least_ratio is not None:
            words.append(f"≥ {self.at_least_ratio:g} ×")
        return ", ".join(words)


class Row(NamedTuple):
    key: str
    title: str
    unit: str
    digits: int
    goal: Goal | None = None


class Table(NamedTuple):
    title: str
    headings: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    """Sentences below the table: how long it took to warm up, for example."""
    for_readme: bool = False
    """It goes into the README rather than into docs/benchmarks.md."""

    def markdown(self) -> str:
        text = [f"**{self.title}**", ""]
        text += ["| " + " | ".join(self.headings) + " |", "|" + "---|" * len(self.headings)]
        text += ["| " + " | ".join(line) + " |" for line in self.lines]
        if self.notes:
            text += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(text) + "\n"

    def show(self) -> None:
        table = TerminalTable(title=self.title, title_justify="left")
        for heading in self.headings:
            table.add_column(heading)
        for line in self.lines:
            table.add_row(*line)
        console = Console(width=None if sys.stdout.isatty() else 220, highlight=False)
        console.print(table)
        for note in self.notes:
            console.print(note)


def compare(
    title: str, rows: Sequence[Row], runs: Runs, notes: Sequence[str] = (), theirs: str = THEIRS
) -> Table:
    """One line per row: both medians with their spread, Moldau ÷ the other, the goal, whether it is
    met.
    """
    lines = [
        (
            row.title,
            runs.text(row.key, OURS, row.digits, row.unit),
            runs.text(row.key, theirs, row.digits, row.unit),
            ratio_text(runs, row.key, theirs),
            row.goal.text(row.unit) if row.goal else "",
            met_text(row.goal, runs, row.key, theirs),
        )
        for row in rows
    ]
    return Table(title, ("work", OURS, theirs, "ratio", "goal", ""), lines, notes)


def ratio_text(runs: Runs, row: str, theirs: str = THEIRS) -> str:
    ratio = runs.ratio(row, OURS, theirs)
    return "" if ratio is None else f"{ratio:.2f}"


def met_text(goal: Goal | None, runs: Runs, row: str, theirs: str = THEIRS) -> str:
    ours = runs.median(row, OURS)
    if goal is None or ours is None:
        return ""
    met = goal.is_met(ours, runs.median(row, theirs))
    return "" if met is None else MET[met]

"""Rows, goals and how they are shown: on the terminal and in docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Goal(NamedTuple):
    """What a row should reach: a bound of its own, or in comparison with Apache Kafka."""

    at_most: float | None = None
    at_most_ratio: float | None = None
    at_least_ratio: float | None = None

    def is_met(self, ours: float, theirs: float) -> bool:
        return (
            (self.at_most is None or ours <= self.at_most)
            and (self.at_most_ratio is None or ours <= theirs * self.at_most_ratio)
            and (self.at_least_ratio is None or ours >= theirs * self.at_least_ratio)
        )

    def text(self, unit: str) -> str:
        words = []
        if self.at_most is not None:
            words.append(f"≤ {self.at_most:g} {unit}")
        if self.at_most_ratio is not None:
            words.append(f"≤ 1/{1 / self.at_most_ratio:g} of Kafka's")
        if self.at_least_ratio is not None:
            words.append(f"≥ {self.at_least_ratio:g} ×")
        return ", ".join(words)


class Row(NamedTuple):
    key: str
    title: str
    unit: str
    digits: int
    goal: Goal | None = None


class Figures(Protocol):
    def median(self, row: str, target_name: str) -> float | None: ...
    def spread(self, row: str, target_name: str) -> tuple[float, float]: ...


HEADINGS = ("work", "Moldau", "Apache Kafka", "ratio", "goal", "met")


def table(rows: Sequence[Row], figures: Figures) -> list[tuple[str, ...]]:
    """One line per row: both medians with their spread, Moldau ÷ Kafka, the goal and whether it is
    met.
    """
    lines: list[tuple[str, ...]] = []
    for row in rows:
        ours, theirs = figures.median(row.key, "Moldau"), figures.median(row.key, "Apache Kafka")
        if ours is None or theirs is None:
            continue
        met = "" if row.goal is None else ("yes" if row.goal.is_met(ours, theirs) else "no")
        lines.append(
            (
                row.title,
                _figure(row, figures, "Moldau"),
                _figure(row, figures, "Apache Kafka"),
                f"{ours / theirs:.2f}",
                row.goal.text(row.unit) if row.goal else "",
                met,
            )
        )
    return lines


def _figure(row: Row, figures: Figures, name: str) -> str:
    middle = figures.median(row.key, name)
    low, high = figures.spread(row.key, name)
    return f"{middle:,.{row.digits}f} {row.unit} ({low:,.{row.digits}f}–{high:,.{row.digits}f})"


def markdown(lines: Sequence[Sequence[str]], headings: Sequence[str] = HEADINGS) -> str:
    text = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    text += ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join(text) + "\n"

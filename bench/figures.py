"""Figures by row and broker (or client), one per round, and what is read from them."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import NamedTuple, Protocol


class Named(Protocol):
    @property
    def name(self) -> str: ...


class Name(NamedTuple):
    """Whom a figure belongs to, where there is no broker of that name."""

    name: str


class Runs:
    def __init__(self) -> None:
        self._figures: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, row: str, target: Named, figure: float) -> None:
        self._figures[row, target.name].append(figure)

    def has(self, target_name: str) -> bool:
        return any(name == target_name for _, name in self._figures)

    def median(self, row: str, target_name: str) -> float | None:
        figures = self._figures.get((row, target_name))
        return statistics.median(figures) if figures else None

    def middle(self, row: str, target_name: str, digits: int = 0, unit: str = "") -> str:
        """The median; nothing where nothing was measured."""
        median = self.median(row, target_name)
        if median is None:
            return ""
        return f"{median:,.{digits}f}" + (f" {unit}" if unit else "")

    def text(self, row: str, target_name: str, digits: int = 0, unit: str = "") -> str:
        """The median with the lowest and highest round."""
        figures = self._figures.get((row, target_name), [])
        words = self.middle(row, target_name, digits, unit)
        if len(figures) < 2:
            return words
        return f"{words} ({min(figures):,.{digits}f}–{max(figures):,.{digits}f})"

    def ratio(self, row: str, ours: str, theirs: str) -> float | None:
        one, other = self.median(row, ours), self.median(row, theirs)
        return None if one is None or not other else one / other

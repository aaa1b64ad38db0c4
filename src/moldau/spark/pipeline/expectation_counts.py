"""How many rows passed and failed since the start, from the reports of batches."""

from __future__ import annotations

from typing import NamedTuple

from moldau.spark.pipeline.progress import Progress


class Count(NamedTuple):
    part: str
    rule: str
    passed: int
    failed: int


class ExpectationCounts:
    """A source or step that several sinks read is counted by the first one that reports it."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}
        self._totals: dict[tuple[str, str], tuple[int, int]] = {}

    def add(self, progress: Progress) -> None:
        for part, rules in progress.expectations.items():
            if self._owners.setdefault(part, progress.sink) != progress.sink:
                continue
            for rule, count in rules.items():
                passed, failed = self._totals.get((part, rule), (0, 0))
                total = passed + count["passed"], failed + count["failed"]
                self._totals[part, rule] = total

    def totals(self) -> list[Count]:
        return [Count(*names, *numbers) for names, numbers in self._totals.items()]

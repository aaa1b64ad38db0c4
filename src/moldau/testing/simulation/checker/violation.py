"""A promise that was broken."""

from __future__ import annotations

from typing import NamedTuple

from moldau.model import TopicPartition


class Violation(NamedTuple):
    invariant: str
    """The name under which the invariant is known."""
    sentence: str
    partition: TopicPartition | None = None
    at: float | None = None
    """When it showed, if that is known: where a reader of the timeline should look."""

    def __str__(self) -> str:
        when = "" if self.at is None else f" (at {self.at:.6f} s)"
        return f"{self.invariant}: {self.sentence}{when}"

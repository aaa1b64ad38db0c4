"""What the checks have found, and what they have learned by the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moldau.model import TopicPartition
from moldau.spark.pipeline.problems import Problem

Columns = Mapping[str, Sequence[str] | None]
"""The columns of sources and steps by name in lower case; None if only Spark knows them."""


@dataclass(frozen=True)
class SourceIdentity:
    """A source by what does not change: the same names may mean another cluster, another topic."""

    servers: str
    cluster: str
    topics: Mapping[str, str]
    """Ids by name."""


@dataclass
class Findings:
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Worth telling, and nothing speaks against running."""
    sources: dict[str, SourceIdentity] = field(default_factory=dict)
    """Those that read topics, by name, as far as their clusters answered."""
    ends: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    """Where partitions end now, by the name of the source that reads them."""

    def add(self, other: Findings) -> None:
        self.problems += other.problems
        self.notes += other.notes
        self.sources.update(other.sources)
        self.ends.update(other.ends)

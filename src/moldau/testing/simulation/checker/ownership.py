"""Groups: no partition belongs to two members in one generation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from moldau.model import TopicPartition
from moldau.testing.simulation.checker.history import History, Ownership
from moldau.testing.simulation.checker.violation import Violation

OWNED_TWICE = "partition owned twice in a generation"


def check_ownership(history: History) -> Iterator[Violation]:
    owners: dict[tuple[str, int, TopicPartition], list[Ownership]] = defaultdict(list)
    for ownership in history.ownerships:
        if ownership.generation < 0:
            continue
        key = (ownership.group, ownership.generation, ownership.partition)
        for other in owners[key]:
            if other.member != ownership.member and not history.may_have_lost(other.heard_at):
                yield Violation(
                    OWNED_TWICE,
                    f"{ownership.partition} belonged to {other.member} (since {other.since:.6f}) "
                    f"and to {ownership.member} in generation {ownership.generation} of group "
                    f"{ownership.group}",
                    ownership.partition,
                    ownership.since,
                )
        owners[key].append(ownership)

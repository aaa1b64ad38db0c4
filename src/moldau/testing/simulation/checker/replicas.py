"""Replicas: one leader in an epoch, what is committed on every one in sync, all of them equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from moldau.model import TopicPartition
from moldau.testing.simulation.checker.violation import Violation

TWO_LEADERS = "two leaders in one epoch"
NOT_IN_SYNC = "in-sync replica without what is committed"
UNEQUAL = "replicas differ below the high watermark"
LEFT_OVER = "replica of a topic that is gone"
DISAGREEMENT = "brokers do not agree with the store"
OUT_OF_SYNC = "replicas do not come into sync"


class ReplicaSight(NamedTuple):
    """A replica as its broker has it."""

    leads: bool
    leader_epoch: int
    start: int
    high_watermark: int
    end: int
    broker_epoch: int = -1
    """Of the life that it is in."""


class PartitionSight(NamedTuple):
    """A partition at one moment: what the store says, and what the brokers that run have."""

    at: float
    partition: TopicPartition
    topic_id: UUID
    isr: Mapping[int, int] | None
    """Who is in sync, and in which life of the broker; None if the store does not run."""
    replicas: Mapping[int, ReplicaSight]
    """By broker."""


@dataclass(slots=True)
class ReplicaChecker:
    """Holds what it is shown against itself."""

    violations: list[Violation] = field(default_factory=list)
    _leaders: dict[tuple[TopicPartition, UUID, int], int] = field(default_factory=dict)
    _told: set[tuple[str, TopicPartition]] = field(default_factory=set)

    def saw(self, sight: PartitionSight) -> None:
        for violation in (*self._two_leaders(sight), *_not_in_sync(sight)):
            self.note(violation)

    def compare(self, at: float, partition: TopicPartition, contents: Mapping[int, bytes]) -> None:
        """``contents`` are the bytes of one range of offsets, by broker."""
        if len(set(contents.values())) > 1:
            sizes = {broker: len(data) for broker, data in contents.items()}
            self.note(
                Violation(
                    UNEQUAL, f"{partition}: of {sizes} bytes not all are equal", partition, at
                )
            )

    def note(self, violation: Violation) -> None:
        """Tell of each invariant once for each partition: it stays broken."""
        key = (violation.invariant, violation.partition or TopicPartition("", -1))
        if key not in self._told:
            self._told.add(key)
            self.violations.append(violation)

    def _two_leaders(self, sight: PartitionSight) -> Iterator[Violation]:
        for broker, replica in sight.replicas.items():
            if not replica.leads:
                continue
            key = (sight.partition, sight.topic_id, replica.leader_epoch)
            other = self._leaders.setdefault(key, broker)
            if other != broker:
                yield Violation(
                    TWO_LEADERS,
                    f"{sight.partition} was led by {other} and by {broker} in epoch "
                    f"{replica.leader_epoch}",
                    sight.partition,
                    sight.at,
                )


def _not_in_sync(sight: PartitionSight) -> Iterator[Violation]:
    """The high watermark of any replica lies within every replica in sync, reachable or not.

    A broker that has begun another life may have come back with less: it is in sync until somebody
    notices, but not as it is now.
    """
    if sight.isr is None:
        return
    high_watermark = max((each.high_watermark for each in sight.replicas.values()), default=0)
    for broker, epoch in sight.isr.items():
        replica = sight.replicas.get(broker)
        if replica is None or replica.broker_epoch != epoch:
            continue
        if replica.end < high_watermark:
            yield Violation(
                NOT_IN_SYNC,
                f"{sight.partition} has the high watermark {high_watermark}, but the replica on "
                f"{broker}, which is in sync, ends at {replica.end}",
                sight.partition,
                sight.at,
            )

"""Replicas as a checker sees them: leaders, what is committed, contents."""

from __future__ import annotations

from uuid import UUID

from moldau.model import TopicPartition
from moldau.testing.simulation.checker.replicas import (
    NOT_IN_SYNC,
    TWO_LEADERS,
    UNEQUAL,
    PartitionSight,
    ReplicaChecker,
    ReplicaSight,
)

PARTITION = TopicPartition("orders", 0)
OLD, NEW = UUID(int=1), UUID(int=2)


class Watched:
    """One partition, shown moment by moment."""

    def __init__(self) -> None:
        self.checker = ReplicaChecker()
        self._at = 0.0

    def shows(
        self,
        *,
        leader: int | None = None,
        epoch: int = 0,
        ends: tuple[int, ...] = (5, 5, 5),
        high_watermark: int = 5,
        isr: tuple[int, ...] | None = (1, 2, 3),
        restarted: tuple[int, ...] = (),
        topic_id: UUID = OLD,
    ) -> None:
        self._at += 1
        replicas = {
            broker: ReplicaSight(
                broker == leader,
                epoch,
                0,
                min(high_watermark, end),
                end,
                8 if broker in restarted else 7,
            )
            for broker, end in enumerate(ends, 1)
        }
        lives = None if isr is None else dict.fromkeys(isr, 7)
        self.checker.saw(PartitionSight(self._at, PARTITION, topic_id, lives, replicas))

    @property
    def broken(self) -> list[str]:
        return [violation.invariant for violation in self.checker.violations]


def test_leaders_follow_each_other_in_epochs() -> None:
    watched = Watched()
    watched.shows(leader=1, epoch=1)
    watched.shows(leader=2, epoch=2)
    watched.shows(leader=1, epoch=1)  # one that has not heard of it
    watched.shows(leader=None, epoch=3)
    assert not watched.broken


def test_two_leaders_in_one_epoch_are_found_whenever_they_are_seen() -> None:
    watched = Watched()
    watched.shows(leader=1, epoch=1)
    watched.shows(leader=3, epoch=2)
    watched.shows(leader=2, epoch=1)
    assert watched.broken == [TWO_LEADERS]
    watched.shows(leader=2, epoch=1)
    assert watched.broken == [TWO_LEADERS], "each is told once"


def test_a_new_topic_of_an_old_name_has_epochs_of_its_own() -> None:
    watched = Watched()
    watched.shows(leader=1, epoch=0, topic_id=OLD)
    watched.shows(leader=2, epoch=0, topic_id=NEW)
    assert not watched.broken


def test_what_is_committed_is_on_every_replica_in_sync() -> None:
    watched = Watched()
    watched.shows(ends=(7, 5, 6), high_watermark=5)
    watched.shows(ends=(7, 4, 7), high_watermark=7, isr=(1, 3))
    watched.shows(ends=(7, 4, 7), high_watermark=7, isr=None)
    assert not watched.broken
    watched.shows(ends=(7, 4, 7), high_watermark=7)
    assert watched.broken == [NOT_IN_SYNC]


def test_a_broker_may_come_back_with_less_before_somebody_notices() -> None:
    watched = Watched()
    watched.shows(ends=(7, 4, 7), high_watermark=7, restarted=(2,))
    assert not watched.broken


def test_replicas_are_equal() -> None:
    watched = Watched()
    watched.checker.compare(1.0, PARTITION, {1: b"abc", 2: b"abc"})
    assert not watched.broken
    watched.checker.compare(2.0, PARTITION, {1: b"abc", 2: b"abd", 3: b"abc"})
    assert watched.broken == [UNEQUAL]

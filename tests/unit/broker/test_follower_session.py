"""Sessions of followers: what they look at, and what wakes them."""

from __future__ import annotations

import random
from uuid import UUID

from tests.support.partitions import LOCAL, NOW_MS, SECOND, append, make_partition

from moldau.broker.fetch_sessions import FetchContext, FetchSessions
from moldau.broker.follower_session import LOOKED_AT_IN_TURN, FollowerPartition
from moldau.replication import ParkedFetch, Partition
from moldau.testing.clock import ManualClock
from moldau.wire.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchTopic

COUNT = 100
TOPIC = UUID(int=5)


class Leader:
    """A broker that leads some partitions, as far as sessions are concerned."""

    def __init__(self) -> None:
        self.sessions = FetchSessions(10, 120_000, randomness=random.Random(1))
        self.partitions = [make_partition(LOCAL, SECOND) for _ in range(COUNT)]
        self.session_id = 0
        self.epoch = 0
        self.replica_epoch = 1
        self.context = self.fetch(dict.fromkeys(range(COUNT), 0))

    def fetch(self, wanted: dict[int, int], forgotten: list[int] | None = None) -> FetchContext:
        """Open the next fetch of the session, with these offsets."""
        topics = [
            FetchTopic(
                None,
                TOPIC,
                [
                    FetchPartition(number, 0, offset, -1, 0, 1 << 20)
                    for number, offset in wanted.items()
                ],
            )
        ]
        request = FetchRequest(
            SECOND,
            self.replica_epoch,
            500,
            1,
            1 << 20,
            0,
            self.session_id,
            self.epoch,
            topics if wanted else [],
            [(None, TOPIC, forgotten)] if forgotten else [],
        )
        self.context = context = self.sessions.open(request, uses_topic_ids=True, now=0.0)
        assert not context.error
        self.epoch += 1
        return context

    def read(self) -> list[int]:
        """Read what is to be read; returns which partitions that is."""
        self.context.look()
        self.answers = []
        for wanted in self.context.partitions:
            partition = self.partitions[wanted.key[2]]
            assert isinstance(wanted, FollowerPartition)
            wanted.watch(partition)
            found = partition.log.read(wanted.fetch_offset, 1 << 20, partition.log.log_end_offset)
            fetched = FetchedPartition(
                wanted.key[2], 0, partition.high_watermark, 0, 0, records=found or b""
            )
            self.answers.append((wanted, fetched))
        return [wanted.key[2] for wanted in self.context.partitions]

    def answer(self) -> list[int]:
        """Tell the follower; returns the partitions that are told."""
        if self.context.starts_session:
            self.sessions.start(self.context, uses_topic_ids=True, now=0.0, replica_id=SECOND)
            self.session_id = self.context.session_id
        return [fetched.partition for _, fetched in self.context.select(self.answers)]

    def settle(self) -> None:
        """Let the session come to rest."""
        self.read()
        self.answer()
        for _ in range(2):
            self.fetch({})
            self.read()
            self.answer()


def test_only_what_has_changed_is_looked_at() -> None:
    leader = Leader()
    assert len(leader.read()) == COUNT
    assert len(leader.answer()) == COUNT
    leader.fetch({})
    assert len(leader.read()) == COUNT, "nobody watched them before"
    assert leader.answer() == []
    append(leader.partitions[7], 3)
    leader.fetch({})
    looked_at = leader.read()
    assert 7 in looked_at
    assert len(looked_at) <= LOOKED_AT_IN_TURN + 1
    assert leader.answer() == [7]
    leader.fetch({7: 3})
    assert len(leader.read()) <= LOOKED_AT_IN_TURN + 1
    leader.answer()
    leader.fetch({})
    leader.read()
    assert leader.answer() == []


def test_all_that_sleep_are_looked_at_in_turn() -> None:
    leader = Leader()
    leader.settle()
    seen: set[int] = set()
    for _ in range(2 * COUNT // LOOKED_AT_IN_TURN + 1):
        leader.fetch({})
        seen.update(leader.read())
        leader.answer()
    assert seen == set(range(COUNT))


def test_what_comes_between_reading_and_telling_is_not_overlooked() -> None:
    leader = Leader()
    leader.settle()
    leader.fetch({})
    leader.read()
    append(leader.partitions[5])
    leader.answer()
    leader.fetch({})
    assert 5 in leader.read()
    assert leader.answer() == [5]


def test_a_high_watermark_that_moves_is_told_with_the_next_answer() -> None:
    leader = Leader()
    append(leader.partitions[5], 2)
    leader.settle()
    leader.fetch({5: 2})
    leader.read()
    leader.answer()
    partition = leader.partitions[5]
    partition.read(2, 1 << 20, current_leader_epoch=0, follower_id=SECOND)
    assert partition.high_watermark == 2
    leader.fetch({})
    leader.read()
    assert leader.answer() == [5]


def park(leader: Leader, clock: ManualClock, seen: list[bool]) -> ParkedFetch:
    session = leader.context.follower
    assert session is not None
    session.parked = ParkedFetch(
        clock,
        (),
        min_bytes=1,
        available=0,
        max_wait_ms=500,
        attempt=lambda final: seen.append(final),
    )
    return session.parked


def test_a_fetch_that_waits_is_woken_by_any_of_its_partitions_once_a_turn() -> None:
    leader = Leader()
    leader.settle()
    leader.fetch({})
    clock, seen = ManualClock(NOW_MS), list[bool]()
    park(leader, clock, seen)
    for number in (3, 40, 99):
        append(leader.partitions[number])
    clock.run_due()
    assert seen == [False]
    assert {3, 40, 99} <= set(leader.read())
    parked = park(leader, clock, seen)
    leader.partitions[9].resign()
    clock.run_due()
    assert seen == [False, True]
    parked.progress(100)
    clock.run_due()
    assert seen == [False, True], "it has ended"


def watchers(partition: Partition) -> int:
    return len(partition._watchers)


def test_what_is_forgotten_and_what_has_ended_watches_nothing() -> None:
    leader = Leader()
    leader.settle()
    assert all(watchers(partition) == 1 for partition in leader.partitions)
    leader.fetch({}, forgotten=[4])
    assert watchers(leader.partitions[4]) == 0
    assert 4 not in leader.read()
    leader.answer()
    leader.fetch({4: 0})
    assert 4 in leader.read()
    assert watchers(leader.partitions[4]) == 1
    leader.epoch = 0
    leader.fetch(dict.fromkeys(range(COUNT), 0))
    assert all(watchers(partition) == 0 for partition in leader.partitions)


def test_a_partition_that_is_another_one_now_is_watched_anew() -> None:
    leader = Leader()
    leader.settle()
    older, leader.partitions[8] = leader.partitions[8], make_partition(LOCAL, SECOND)
    older.resign()
    leader.fetch({})
    assert 8 in leader.read()
    assert (watchers(older), watchers(leader.partitions[8])) == (0, 1)


def test_who_asks_again_is_told_again_what_is_committed() -> None:
    """A follower throws an answer away that it asked for in an earlier epoch."""
    leader = Leader()
    leader.settle()
    leader.fetch({5: 0})
    leader.read()
    assert leader.answer() == [5]
    leader.fetch({})
    leader.read()
    assert leader.answer() == []


def test_a_broker_that_is_registered_anew_is_heard_by_all_its_leaders() -> None:
    leader = Leader()
    leader.settle()
    leader.replica_epoch = 2
    leader.fetch({})
    assert len(leader.read()) == COUNT
    leader.answer()
    leader.fetch({})
    assert len(leader.read()) <= LOOKED_AT_IN_TURN

"""A partition as the leader of followers: who is in sync, what is asked of the controller."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from tests.support.partitions import (
    LOCAL,
    PLENTY,
    SECOND,
    THIRD,
    append,
    make_log,
    state,
)

from moldau.config.values.topic import TopicConfig
from moldau.controller import AlterPartitionResult
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.clock import steady_ms
from moldau.replication import FollowerFetches, LeaderPorts, Partition
from moldau.testing.clock import ManualClock

LAG_S = 10.0
EPOCHS = {LOCAL: 100, SECOND: 200, THIRD: 300}


@dataclass
class Leader:
    """A partition on a clock of its own, which notes what it asks for."""

    partition: Partition
    clock: ManualClock
    ports: LeaderPorts
    asked: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark

    def fetch(
        self, follower: int, offset: int, *, epoch: int | None = None, log_start: int = 0
    ) -> None:
        self.partition.read(
            offset,
            PLENTY,
            follower_id=follower,
            follower_epoch=EPOCHS[follower] if epoch is None else epoch,
            follower_log_start=log_start,
        )

    def accept(self, partition_epoch: int) -> bool:
        """The controller does as it is asked."""
        change = self.partition.isr_change
        assert change is not None
        return self.partition.isr_answered(
            change,
            AlterPartitionResult(
                topic="t",
                partition=0,
                leader=LOCAL,
                leader_epoch=change.leader_epoch,
                isr=change.isr,
                partition_epoch=partition_epoch,
            ),
        )

    def refuse(self, error: ErrorCode) -> bool:
        change = self.partition.isr_change
        assert change is not None
        return self.partition.isr_refused(change, error)


def make_leader(*isr: int, min_insync_replicas: int = 1, log_end: int = 0) -> Leader:
    clock = ManualClock()
    ports = LeaderPorts(lambda: steady_ms(clock), int(LAG_S * 1000))
    ports.alive = dict(EPOCHS)
    log = make_log(replace(TopicConfig(), min_insync_replicas=min_insync_replicas))
    partition = Partition(LOCAL, log, state(leader=SECOND, isr=(SECOND,)), ports=ports)
    if log_end:
        lone = Partition(LOCAL, log, state(replicas=(LOCAL,)))
        append(lone, log_end)
        partition.high_watermark = 0
    partition.use_log(log)
    leader = Leader(partition, clock, ports)

    def ask(asking: Partition) -> None:
        assert asking is partition
        assert asking.isr_change is not None
        leader.asked.append(asking.isr_change.isr)

    ports.ask = ask
    partition.apply(state(epoch=1, isr=isr, partition_epoch=1))
    return leader


# Joining and leaving -----------------------------------------------------------------------------


def test_a_follower_that_has_caught_up_is_proposed_and_counts_from_then_on() -> None:
    leader = make_leader(LOCAL, SECOND)
    append(leader.partition, 4)
    leader.fetch(SECOND, 4)
    leader.fetch(THIRD, 4)
    assert leader.asked == [(LOCAL, SECOND, THIRD)]
    assert list(leader.partition.isr) == [LOCAL, SECOND]
    append(leader.partition, 2)
    leader.fetch(SECOND, 6)
    leader.clock.advance(2 * LAG_S)
    append(leader.partition)
    assert leader.high_watermark == 4
    assert leader.accept(2)
    assert list(leader.partition.isr) == [LOCAL, SECOND, THIRD]
    leader.fetch(THIRD, 6)
    assert leader.high_watermark == 6


def test_a_follower_behind_the_high_watermark_is_not_proposed() -> None:
    leader = make_leader(LOCAL, SECOND)
    append(leader.partition, 4)
    leader.fetch(SECOND, 4)
    leader.fetch(THIRD, 3)
    assert leader.asked == []


def test_a_follower_is_proposed_only_with_all_that_the_leader_had_at_its_election() -> None:
    leader = make_leader(LOCAL, SECOND, log_end=5)
    leader.fetch(THIRD, 4)
    assert leader.asked == []
    leader.fetch(THIRD, 5)
    assert leader.asked == [(LOCAL, SECOND, THIRD)]


def test_an_earlier_life_of_a_follower_is_not_listened_to() -> None:
    leader = make_leader(LOCAL, SECOND)
    append(leader.partition, 4)
    with pytest.raises(KafkaError) as refusal:
        leader.fetch(SECOND, 4, epoch=199)
    assert refusal.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.high_watermark == 0


def test_a_follower_is_proposed_once_its_registration_is_known() -> None:
    leader = make_leader(LOCAL)
    leader.fetch(SECOND, 0, epoch=201)
    assert leader.asked == []
    leader.ports.alive = {**EPOCHS, SECOND: 201}
    leader.partition.review_replicas()
    assert leader.asked == [(LOCAL, SECOND)]


def test_followers_are_proposed_one_after_the_other() -> None:
    leader = make_leader(LOCAL)
    leader.fetch(SECOND, 0)
    leader.fetch(THIRD, 0)
    assert leader.asked == [(LOCAL, SECOND)]
    assert leader.accept(2)
    assert leader.asked == [(LOCAL, SECOND), (LOCAL, SECOND, THIRD)]


def test_a_follower_that_lags_leaves_when_the_controller_has_agreed() -> None:
    leader = make_leader(LOCAL, SECOND, THIRD)
    append(leader.partition, 4)
    leader.fetch(THIRD, 2)
    leader.clock.advance(LAG_S)
    leader.partition.review_replicas()
    assert leader.asked == []
    leader.fetch(SECOND, 4)
    leader.clock.advance(0.001)
    leader.partition.review_replicas()
    assert leader.asked == [(LOCAL, SECOND)]
    assert leader.high_watermark == 2
    assert leader.accept(2)
    assert leader.high_watermark == 4


def test_a_follower_that_has_everything_stays_however_long_nothing_happens() -> None:
    leader = make_leader(LOCAL, SECOND)
    append(leader.partition, 4)
    leader.fetch(SECOND, 4)
    leader.clock.advance(100 * LAG_S)
    leader.partition.review_replicas()
    assert leader.asked == []


def test_a_session_keeps_its_partitions_in_sync_without_reading_them() -> None:
    leader = make_leader(LOCAL, SECOND)
    append(leader.partition, 4)
    fetches = FollowerFetches()
    leader.partition.read(4, PLENTY, follower_id=SECOND, follower_epoch=200, fetches=fetches)
    leader.clock.advance(100 * LAG_S)
    fetches.last_ms = leader.ports.now_ms()
    append(leader.partition)
    leader.partition.review_replicas()
    assert leader.asked == []
    leader.clock.advance(LAG_S + 1)
    leader.partition.review_replicas()
    assert leader.asked == [(LOCAL,)]


def test_a_session_that_has_dropped_a_partition_does_not_speak_for_it() -> None:
    leader = make_leader(LOCAL, SECOND)
    append(leader.partition, 4)
    fetches = FollowerFetches()
    leader.partition.read(4, PLENTY, follower_id=SECOND, follower_epoch=200, fetches=fetches)
    leader.partition.forget_fetches(SECOND, FollowerFetches())
    leader.partition.forget_fetches(SECOND, fetches)
    leader.clock.advance(2 * LAG_S)
    fetches.last_ms = leader.ports.now_ms()
    append(leader.partition)
    leader.partition.review_replicas()
    assert leader.asked == [(LOCAL,)]


# Answers -----------------------------------------------------------------------------------------


def test_what_timed_out_stays_wanted_and_counts() -> None:
    leader = make_leader(LOCAL, SECOND)
    append(leader.partition, 4)
    leader.fetch(SECOND, 2)
    leader.fetch(THIRD, 2)
    assert leader.refuse(ErrorCode.REQUEST_TIMED_OUT)
    leader.fetch(SECOND, 4)
    leader.clock.advance(2 * LAG_S)
    leader.partition.review_replicas()
    assert leader.high_watermark == 2
    assert leader.partition.isr_change is not None


def test_a_replica_found_ineligible_counts_no_more() -> None:
    leader = make_leader(LOCAL, SECOND)
    append(leader.partition, 4)
    leader.fetch(SECOND, 2)
    leader.fetch(THIRD, 2)
    leader.fetch(SECOND, 4)
    assert not leader.refuse(ErrorCode.INELIGIBLE_REPLICA)
    leader.ports.alive = {LOCAL: 100, SECOND: 200}
    leader.partition.review_replicas()
    assert leader.high_watermark == 2, "it may have been accepted before"
    leader.partition.apply(state(epoch=1, isr=(LOCAL, SECOND), partition_epoch=2))
    assert leader.high_watermark == 4
    assert leader.partition.isr_change is None


def test_the_controllers_own_word_settles_what_was_wanted() -> None:
    leader = make_leader(LOCAL, SECOND)
    leader.fetch(THIRD, 0)
    change = leader.partition.isr_change
    assert change is not None
    leader.partition.apply(state(epoch=1, isr=(LOCAL, SECOND), partition_epoch=1))
    assert leader.refuse(ErrorCode.REQUEST_TIMED_OUT), "the same word once more says nothing"
    leader.partition.apply(state(epoch=1, isr=(LOCAL, SECOND, THIRD), partition_epoch=2))
    assert leader.partition.isr_change is None
    assert list(leader.partition.isr) == [LOCAL, SECOND, THIRD]
    assert not leader.partition.isr_refused(change, ErrorCode.REQUEST_TIMED_OUT)


def test_an_answer_is_newer_than_the_controllers_word_that_comes_after_it() -> None:
    leader = make_leader(LOCAL, SECOND)
    leader.fetch(THIRD, 0)
    assert leader.accept(2)
    leader.partition.apply(state(epoch=1, isr=(LOCAL, SECOND), partition_epoch=1))
    assert list(leader.partition.isr) == [LOCAL, SECOND, THIRD]


def test_whoever_leads_no_more_wants_nothing() -> None:
    leader = make_leader(LOCAL, SECOND)
    leader.fetch(THIRD, 0)
    change = leader.partition.isr_change
    assert change is not None
    leader.partition.apply(state(leader=SECOND, epoch=2, isr=(SECOND,), partition_epoch=2))
    assert leader.partition.isr_change is None
    assert not leader.partition.has_followers
    assert not leader.partition.isr_refused(change, ErrorCode.REQUEST_TIMED_OUT)
    assert list(leader.partition.isr) == [SECOND]


def test_a_partition_that_gets_more_replicas_gets_followers() -> None:
    leader = make_leader(LOCAL)
    lone = Partition(LOCAL, make_log(topic="lone"), state(replicas=(LOCAL,)), ports=leader.ports)
    assert not lone.has_followers
    lone.apply(state(replicas=(LOCAL, SECOND), partition_epoch=1))
    assert lone.has_followers


# Min ISR -----------------------------------------------------------------------------------------


def test_the_high_watermark_stays_while_too_few_are_in_sync() -> None:
    leader = make_leader(LOCAL, SECOND, min_insync_replicas=2)
    append(leader.partition, 2)
    leader.fetch(SECOND, 2)
    leader.partition.apply(state(epoch=1, isr=(LOCAL,), partition_epoch=2))
    append(leader.partition, 2, acks=1)
    leader.clock.advance(2 * LAG_S)
    leader.partition.review_replicas()
    assert leader.high_watermark == 2
    leader.fetch(SECOND, 4)
    assert leader.asked == [(LOCAL, SECOND)]
    assert leader.high_watermark == 2
    assert leader.accept(3)
    assert leader.high_watermark == 4


def test_the_high_watermark_moves_when_fewer_replicas_are_asked_for() -> None:
    leader = make_leader(LOCAL, min_insync_replicas=2)
    append(leader.partition, 2, acks=1)
    assert leader.high_watermark == 0
    leader.partition.log.config = replace(TopicConfig(), min_insync_replicas=1)
    leader.partition.review_replicas()
    assert leader.high_watermark == 2


# After an election -------------------------------------------------------------------------------


def test_a_new_leader_knows_its_end_when_the_high_watermark_is_there() -> None:
    leader = make_leader(LOCAL, SECOND, log_end=3)
    append(leader.partition)
    assert not leader.partition.knows_its_end
    leader.fetch(SECOND, 2)
    assert not leader.partition.knows_its_end
    leader.fetch(SECOND, 3)
    assert leader.partition.knows_its_end


# Deleting records --------------------------------------------------------------------------------


@dataclass
class Deletion:
    told: list[int] = field(default_factory=list)

    __hash__ = object.__hash__

    def deleted(self, partition: Partition) -> None:
        self.told.append(partition.low_watermark if partition.is_leader else -1)


def deleting(leader: Leader) -> Deletion:
    append(leader.partition, 2)
    append(leader.partition, 2)
    leader.fetch(SECOND, 4)
    leader.fetch(THIRD, 4)
    leader.partition.delete_records(2)
    deletion = Deletion()
    leader.partition.park_deletion(deletion, 2)
    return deletion


def test_a_deletion_waits_for_the_followers() -> None:
    leader = make_leader(LOCAL, SECOND, THIRD)
    deletion = deleting(leader)
    assert leader.partition.parked == 1
    leader.fetch(SECOND, 4, log_start=2)
    assert deletion.told == []
    leader.fetch(THIRD, 4, log_start=3)
    assert deletion.told == [2]
    assert leader.partition.parked == 0


def test_a_deletion_does_not_wait_for_brokers_that_are_gone() -> None:
    leader = make_leader(LOCAL, SECOND, THIRD)
    deletion = deleting(leader)
    leader.fetch(SECOND, 4, log_start=2)
    leader.ports.alive = {LOCAL: 100, SECOND: 200}
    leader.partition.review_replicas()
    assert deletion.told == [2]


def test_a_deletion_is_told_of_lost_leadership_and_may_leave() -> None:
    leader = make_leader(LOCAL, SECOND, THIRD)
    deletion, leaving = deleting(leader), Deletion()
    leader.partition.park_deletion(leaving, 2)
    leader.partition.leave_deletion(leaving)
    leader.partition.apply(state(leader=SECOND, epoch=2, isr=(SECOND,), partition_epoch=2))
    assert (deletion.told, leaving.told) == ([-1], [])


def test_a_lone_replica_has_deleted_at_once() -> None:
    partition = Partition(LOCAL, make_log(), state(replicas=(LOCAL,)))
    append(partition, 2)
    partition.delete_records(2)
    deletion = Deletion()
    partition.park_deletion(deletion, 2)
    assert deletion.told == [2]

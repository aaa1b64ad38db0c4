"""What a leader decides about its followers: the rules, one by one."""

from __future__ import annotations

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.replication.isr import (
    OVERTAKEN,
    REFUSAL_PAUSE_MS,
    FollowerFetches,
    InSyncReplicas,
    IsrChange,
)

LOCAL, SECOND, THIRD = 1, 2, 3
REPLICAS = (LOCAL, SECOND, THIRD)
ALIVE = {LOCAL: 10, SECOND: 20, THIRD: 30}
NOW, LAG = 100_000, 1000


def leader(*isr: int, epoch_start: int = 0) -> InSyncReplicas:
    return InSyncReplicas(LOCAL, 5, 7, REPLICAS, isr, epoch_start, NOW)


def fetch(
    isr: InSyncReplicas,
    follower: int,
    offset: int,
    *,
    end: int = 10,
    now: int = NOW,
    epoch: int | None = None,
    log_start: int = 0,
) -> None:
    epoch = ALIVE[follower] if epoch is None else epoch
    isr.fetched(follower, epoch, offset, log_start, end, now, ALIVE)


def replicated(isr: InSyncReplicas, end: int = 10, now: int = NOW) -> int:
    return isr.replicated_end(end, end, now, LAG, ALIVE)


def expand(isr: InSyncReplicas, follower: int, high_watermark: int = 5) -> IsrChange | None:
    return isr.expand(follower, high_watermark, NOW, ALIVE)


# Positions ---------------------------------------------------------------------------------------


def test_a_follower_that_lost_its_tail_counts_with_what_is_left() -> None:
    isr = leader(LOCAL, SECOND)
    fetch(isr, SECOND, 10)
    assert replicated(isr) == 10
    fetch(isr, SECOND, 4)
    assert replicated(isr) == 4


def test_an_in_sync_follower_that_nothing_is_known_of_holds_everything_back() -> None:
    assert replicated(leader(LOCAL, SECOND)) == -1


def test_what_is_not_durable_at_the_leader_is_not_replicated() -> None:
    isr = leader(LOCAL, SECOND)
    fetch(isr, SECOND, 10)
    assert isr.replicated_end(8, 10, NOW, LAG, ALIVE) == 8


@pytest.mark.parametrize("epoch", [19, -1])
def test_a_fetch_of_an_earlier_life_is_refused(epoch: int) -> None:
    isr = leader(LOCAL, SECOND)
    with pytest.raises(KafkaError) as refusal:
        fetch(isr, SECOND, 10, epoch=epoch)
    assert refusal.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replicated(isr) == -1


def test_a_fetch_of_a_life_that_is_not_announced_yet_counts_and_outdates_the_one_before() -> None:
    isr = leader(LOCAL, SECOND)
    fetch(isr, SECOND, 6, epoch=21)
    assert replicated(isr) == 6
    with pytest.raises(KafkaError):
        fetch(isr, SECOND, 10, epoch=20)
    assert replicated(isr) == 6


# Caught up ---------------------------------------------------------------------------------------


def lags(isr: InSyncReplicas, end: int, now: int) -> bool:
    return isr.shrink(end, now, LAG) is not None


def test_whoever_has_everything_never_lags() -> None:
    isr = leader(LOCAL, SECOND)
    fetch(isr, SECOND, 10)
    assert not lags(isr, 10, NOW + 100 * LAG)


def test_a_follower_that_stopped_lags_after_the_time_and_not_before() -> None:
    isr = leader(LOCAL, SECOND)
    fetch(isr, SECOND, 10)
    assert not lags(isr, 11, NOW + LAG)
    assert lags(isr, 11, NOW + LAG + 1)


def test_a_follower_is_in_sync_that_has_what_there_was_at_its_last_fetch() -> None:
    """It is never at the end of a log that grows all the time, yet never far from it."""
    isr = leader(LOCAL, SECOND)
    for step in range(1, 10):
        now = NOW + step * LAG
        fetch(isr, SECOND, 10 * step, end=10 * step + 10, now=now)
        assert not lags(isr, 10 * step + 10, now)


def test_a_follower_lags_that_reads_but_never_gets_there() -> None:
    isr = leader(LOCAL, SECOND)
    for step in range(1, 4):
        fetch(isr, SECOND, step, end=10 * step, now=NOW + step * LAG // 2)
    assert lags(isr, 30, NOW + 3 * LAG // 2)


def test_a_new_leader_gives_those_in_sync_the_whole_time() -> None:
    isr = leader(LOCAL, SECOND)
    assert not lags(isr, 10, NOW + LAG)
    assert lags(isr, 10, NOW + LAG + 1)


def test_the_fetches_of_a_session_count_for_partitions_that_they_did_not_look_at() -> None:
    isr = leader(LOCAL, SECOND)
    fetch(isr, SECOND, 10)
    fetches = isr.followers[SECOND].fetches = FollowerFetches()
    fetches.last_ms = NOW + 50 * LAG
    isr.appended(10)
    assert not lags(isr, 11, NOW + 51 * LAG)
    assert lags(isr, 11, NOW + 51 * LAG + 1)


def test_the_fetches_of_a_session_say_nothing_about_a_follower_that_is_behind() -> None:
    isr = leader(LOCAL, SECOND)
    fetch(isr, SECOND, 9)
    fetches = isr.followers[SECOND].fetches = FollowerFetches()
    fetches.last_ms = NOW + 50 * LAG
    isr.appended(10)
    assert lags(isr, 11, NOW + 50 * LAG)


# Joining -----------------------------------------------------------------------------------------


def test_a_follower_with_everything_committed_is_proposed_and_counts_at_once() -> None:
    isr = leader(LOCAL, SECOND)
    fetch(isr, SECOND, 10)
    fetch(isr, THIRD, 5)
    change = expand(isr, THIRD)
    assert change is not None
    assert isr.pending is change
    assert (change.isr, change.isr_epochs) == ((LOCAL, SECOND, THIRD), (-1, 20, 30))
    assert (change.leader_epoch, change.partition_epoch) == (5, 7)
    assert isr.committed == (LOCAL, SECOND)
    assert replicated(isr, now=NOW + 10 * LAG) == 5


def test_a_follower_joins_only_with_what_is_committed() -> None:
    isr = leader(LOCAL, SECOND)
    fetch(isr, THIRD, 4)
    assert expand(isr, THIRD, high_watermark=5) is None
    assert isr.pending is None


def test_a_follower_joins_only_with_what_the_leader_had_when_it_was_elected() -> None:
    isr = leader(LOCAL, SECOND, epoch_start=8)
    fetch(isr, THIRD, 7)
    assert expand(isr, THIRD, high_watermark=5) is None
    fetch(isr, THIRD, 8)
    assert expand(isr, THIRD, high_watermark=5) is not None


def test_only_the_registered_life_of_a_broker_joins() -> None:
    isr = leader(LOCAL, SECOND)
    fetch(isr, THIRD, 10, epoch=31)
    assert expand(isr, THIRD) is None
    assert isr.expand(THIRD, 5, NOW, {LOCAL: 10}) is None
    assert isr.expand(THIRD, 5, NOW, {THIRD: 31}) is not None


def test_a_follower_that_never_fetched_does_not_join() -> None:
    isr = leader(LOCAL, SECOND)
    assert isr.expand(THIRD, -1, NOW, {}) is None
    assert isr.expand(THIRD, -1, NOW, ALIVE) is None


def test_one_change_at_a_time_and_then_the_next() -> None:
    isr = leader(LOCAL)
    fetch(isr, SECOND, 10)
    fetch(isr, THIRD, 10)
    first = expand(isr, SECOND)
    assert first is not None
    assert expand(isr, THIRD) is None
    assert isr.shrink(11, NOW + 10 * LAG, LAG) is None
    assert isr.accepted(first, 5, 8, first.isr)
    second = isr.expand_any(5, 10, NOW, LAG, ALIVE)
    assert second is not None
    assert (second.isr, second.partition_epoch) == ((LOCAL, SECOND, THIRD), 8)


def test_a_replica_that_lags_is_not_proposed_unasked() -> None:
    isr = leader(LOCAL)
    fetch(isr, SECOND, 5)
    assert isr.expand_any(5, 10, NOW, LAG, ALIVE) is None


def test_a_replica_about_to_join_is_waited_for_if_it_may_join() -> None:
    isr = leader(LOCAL)
    fetch(isr, SECOND, 10, end=10)
    assert replicated(isr, 12, NOW + LAG) == 10
    assert replicated(isr, 12, NOW + LAG + 1) == 12
    assert isr.replicated_end(12, 12, NOW + LAG, LAG, {LOCAL: 10}) == 12


# Leaving -----------------------------------------------------------------------------------------


def test_nobody_waits_for_one_whom_the_controller_has_taken_out_before_it_asks_again() -> None:
    """Its broker is up, but the disk under this replica has failed."""
    isr = leader(LOCAL, SECOND, THIRD)
    fetch(isr, SECOND, 10, end=10)
    fetch(isr, THIRD, 10, end=10)
    isr.update(8, REPLICAS, (LOCAL, SECOND), NOW)
    fetch(isr, SECOND, 12, end=12)
    assert replicated(isr, 12) == 12
    fetch(isr, THIRD, 12, end=12)
    fetch(isr, SECOND, 14, end=14)
    assert replicated(isr, 14) == 12, "it is about to join"


def test_whoever_leaves_counts_until_the_controller_has_answered() -> None:
    isr = leader(LOCAL, SECOND, THIRD)
    later = NOW + LAG + 1
    fetch(isr, SECOND, 10, now=later)
    fetch(isr, THIRD, 4)
    change = isr.shrink(10, later, LAG)
    assert change is not None
    assert (change.isr, change.isr_epochs) == ((LOCAL, SECOND), (-1, 20))
    assert replicated(isr, now=later) == 4
    assert isr.accepted(change, 5, 8, (LOCAL, SECOND))
    assert replicated(isr, now=later) == 10


def test_the_leader_itself_stays() -> None:
    isr = leader(LOCAL, SECOND, THIRD)
    change = isr.shrink(10, NOW + LAG + 1, LAG)
    assert change is not None
    assert change.isr == (LOCAL,)
    assert isr.accepted(change, 5, 8, change.isr)
    assert isr.shrink(10, NOW + 10 * LAG, LAG) is None


# Answers -----------------------------------------------------------------------------------------


def joining() -> tuple[InSyncReplicas, IsrChange]:
    isr = leader(LOCAL, SECOND)
    fetch(isr, SECOND, 10)
    fetch(isr, THIRD, 6)
    change = expand(isr, THIRD)
    assert change is not None
    return isr, change


def late(isr: InSyncReplicas) -> int:
    """What is replicated when nobody is spared for having caught up lately."""
    return replicated(isr, now=NOW + 10 * LAG)


@pytest.mark.parametrize("error", sorted(OVERTAKEN))
def test_after_an_error_that_tells_of_a_newer_state_the_change_stays_until_that_comes(
    error: ErrorCode,
) -> None:
    isr, change = joining()
    assert not isr.refused(change, error, NOW)
    assert late(isr) == 6
    isr.update(8, REPLICAS, (LOCAL, SECOND), NOW)
    assert isr.pending is None
    assert late(isr) == 10


@pytest.mark.parametrize("answer_first", [True, False])
def test_a_replica_that_was_refused_is_not_proposed_again_for_a_while(answer_first: bool) -> None:
    isr, change = joining()
    if answer_first:
        assert not isr.refused(change, ErrorCode.INELIGIBLE_REPLICA, NOW)
        assert isr.pending is change, (
            "another copy may be accepted as long as there is no new state"
        )
    isr.update(8, REPLICAS, (LOCAL, SECOND), NOW)
    if not answer_first:
        assert not isr.refused(change, ErrorCode.INELIGIBLE_REPLICA, NOW)
    assert late(isr) == 10
    fetch(isr, THIRD, 10)
    assert expand(isr, THIRD, 10) is None
    assert isr.expand(THIRD, 10, NOW + REFUSAL_PAUSE_MS, ALIVE) is not None


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_may_have_been_done_is_asked_for_again(error: ErrorCode) -> None:
    isr, change = joining()
    assert isr.refused(change, error, NOW)
    assert isr.pending is change
    assert late(isr) == 6


def test_the_same_state_once_more_settles_nothing() -> None:
    isr, change = joining()
    isr.update(7, REPLICAS, (LOCAL, SECOND), NOW)
    isr.update(6, REPLICAS, (LOCAL,), NOW)
    assert isr.pending is change
    assert late(isr) == 6


def test_an_answer_to_another_request_settles_nothing() -> None:
    isr, first = joining()
    isr.update(8, REPLICAS, (LOCAL, SECOND), NOW)
    second = expand(isr, THIRD)
    assert second is not None
    assert not isr.accepted(first, 5, 8, (LOCAL, SECOND))
    assert not isr.refused(first, ErrorCode.INELIGIBLE_REPLICA, NOW)
    assert not isr.refused(first, ErrorCode.REQUEST_TIMED_OUT, NOW)
    assert isr.pending is second


def test_an_answer_of_another_leadership_or_from_the_past_settles_nothing() -> None:
    isr, change = joining()
    assert not isr.accepted(change, 6, 9, REPLICAS)
    assert not isr.accepted(change, 5, 6, REPLICAS)
    assert isr.pending is change


def test_an_answer_may_be_that_it_was_done_already() -> None:
    isr, change = joining()
    assert isr.accepted(change, 5, 7, REPLICAS)
    assert (isr.committed, isr.pending) == (REPLICAS, None)


# The controller's word ---------------------------------------------------------------------------


def test_replicas_come_and_go_with_the_assignment() -> None:
    isr = leader(LOCAL, SECOND)
    fetch(isr, SECOND, 10)
    isr.update(8, (LOCAL, SECOND, 4), (LOCAL, SECOND), NOW)
    assert set(isr.followers) == {SECOND, 4}
    assert replicated(isr) == 10


def test_the_low_watermark_is_the_smallest_start_of_the_replicas_that_are_up() -> None:
    isr = leader(LOCAL, SECOND, THIRD)
    fetch(isr, SECOND, 10, log_start=3)
    assert isr.low_watermark(5, ALIVE) == -1
    fetch(isr, THIRD, 10, log_start=4)
    assert isr.low_watermark(5, ALIVE) == 3
    assert isr.low_watermark(5, {LOCAL: 10, THIRD: 30}) == 4
    assert isr.low_watermark(2, ALIVE) == 2

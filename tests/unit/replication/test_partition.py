"""High watermark, visibility, epochs and leadership of one partition."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.partition_log import Observer, verified
from tests.support.partitions import (
    LOCAL,
    NOW_MS,
    PLENTY,
    SECOND,
    THIRD,
    append,
    batch,
    make_log,
    make_partition,
    offsets,
    state,
)

from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.replication import Partition
from moldau.testing.disk import MemoryDisk


def refused(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.RaisesExc(KafkaError, check=lambda error: error.code is code)


# High watermark ----------------------------------------------------------------------------------


def test_high_watermark_of_a_lone_replica_follows_every_append() -> None:
    partition = make_partition(LOCAL)
    for count in (1, 3, 2):
        assert append(partition, count) == partition.high_watermark == partition.log.log_end_offset
    assert partition.high_watermark == 6


def test_high_watermark_waits_for_every_follower_in_the_isr() -> None:
    partition = make_partition(LOCAL, SECOND, THIRD)
    append(partition, 5)
    assert partition.high_watermark == 0
    partition.read(5, PLENTY, follower_id=SECOND)
    assert partition.high_watermark == 0
    partition.read(3, PLENTY, follower_id=THIRD)
    assert partition.high_watermark == 3
    partition.read(5, PLENTY, follower_id=THIRD)
    assert partition.high_watermark == 5


def flushed_by(messages: int, log_end: int = 0) -> Partition:
    """A lone replica under ``flush.messages``, whose log has something unsynced in it already."""
    log = make_log(replace(TopicConfig(), flush_messages=messages))
    for _ in range(log_end):
        log.append_as_leader(batch(), 0, NOW_MS)
    return Partition(LOCAL, log, state())


def test_what_flush_messages_asks_for_is_not_seen_before_it_is_durable() -> None:
    partition = flushed_by(1)
    observer = Observer(partition.log)
    append(partition, 3)
    assert (partition.high_watermark, observer.flushes_due) == (0, 1)
    assert offsets(partition.read(0, PLENTY)) == []
    partition.log.durability.flush(NOW_MS)
    assert partition.high_watermark == 3


def test_what_is_within_flush_messages_is_seen_at_once() -> None:
    partition = flushed_by(3)
    append(partition, 2)
    assert partition.high_watermark == 2
    append(partition)
    assert partition.high_watermark == 2
    partition.log.durability.flush(NOW_MS)
    assert partition.high_watermark == 3
    append(partition)
    assert partition.high_watermark == 4


def test_a_leader_flushes_what_a_crash_left_unsynced_before_anybody_sees_it() -> None:
    partition = flushed_by(1, log_end=4)
    assert partition.high_watermark == 0
    partition.log.durability.flush(NOW_MS)
    assert partition.high_watermark == 4


def test_a_flush_is_no_substitute_for_followers() -> None:
    log = make_log(replace(TopicConfig(), flush_messages=1))
    partition = Partition(LOCAL, log, state(isr=(LOCAL, SECOND)))
    append(partition, 2)
    partition.read(2, PLENTY, follower_id=SECOND)
    assert partition.high_watermark == 0
    partition.log.durability.flush(NOW_MS)
    assert partition.high_watermark == 2
    append(partition)
    partition.log.durability.flush(NOW_MS)
    assert partition.high_watermark == 2


def test_followers_outside_the_isr_do_not_hold_the_high_watermark_back() -> None:
    partition = make_partition(LOCAL, SECOND)
    append(partition, 4)
    partition.read(4, PLENTY, follower_id=SECOND)
    partition.read(0, PLENTY, follower_id=THIRD)
    assert partition.high_watermark == 4


def test_high_watermark_advances_when_a_slow_replica_leaves_the_isr() -> None:
    partition = make_partition(LOCAL, SECOND, THIRD)
    append(partition, 4)
    partition.read(4, PLENTY, follower_id=SECOND)
    assert partition.high_watermark == 0
    partition.apply(state(isr=(LOCAL, SECOND), partition_epoch=1))
    assert partition.high_watermark == 4


def test_high_watermark_never_moves_back() -> None:
    partition = make_partition(LOCAL)
    append(partition, 4)
    partition.apply(state(isr=(LOCAL, SECOND), partition_epoch=1))
    append(partition, 2)
    partition.read(2, PLENTY, follower_id=SECOND)
    assert partition.high_watermark == 4
    partition.read(6, PLENTY, follower_id=SECOND)
    assert partition.high_watermark == 6


def test_a_follower_that_lost_some_of_its_log_has_to_get_it_again() -> None:
    partition = make_partition(LOCAL, SECOND)
    append(partition, 4)
    partition.read(4, PLENTY, follower_id=SECOND)
    append(partition, 4)
    partition.read(6, PLENTY, follower_id=SECOND)
    partition.read(2, PLENTY, follower_id=SECOND)
    append(partition, 1)
    assert partition.high_watermark == 6, "it never moves back"
    partition.read(5, PLENTY, follower_id=SECOND)
    assert partition.high_watermark == 6
    partition.read(9, PLENTY, follower_id=SECOND)
    assert partition.high_watermark == 9


def test_a_new_leader_epoch_forgets_what_followers_had() -> None:
    partition = make_partition(LOCAL, SECOND)
    append(partition, 4)
    partition.read(4, PLENTY, follower_id=SECOND)
    partition.apply(state(epoch=1, isr=(LOCAL, SECOND), partition_epoch=1))
    append(partition, 2)
    assert partition.high_watermark == 4
    partition.read(6, PLENTY, current_leader_epoch=1, follower_id=SECOND)
    assert partition.high_watermark == 6


@pytest.mark.parametrize(("written_down", "expected"), [(0, 0), (2, 2), (3, 3), (100, 3)], ids=str)
def test_the_checkpointed_high_watermark_is_taken_up_within_the_log(
    written_down: int, expected: int
) -> None:
    log = make_log()
    log.append_as_leader(batch(3), 0, NOW_MS)
    partition = Partition(LOCAL, log, state(isr=(LOCAL, SECOND)), high_watermark=written_down)
    assert partition.high_watermark == expected


def test_a_follower_leaves_the_high_watermark_alone() -> None:
    log = make_log()
    log.append_as_leader(batch(3), 0, NOW_MS)
    partition = Partition(LOCAL, log, state(leader=SECOND, isr=(SECOND, LOCAL)))
    assert not partition.is_leader
    assert partition.high_watermark == 0


@given(
    isr=st.sampled_from([(LOCAL,), (LOCAL, SECOND), (LOCAL, SECOND, THIRD)]),
    events=st.lists(
        st.one_of(
            st.integers(1, 4).map(lambda count: ("append", count)),
            st.tuples(st.sampled_from([SECOND, THIRD]), st.integers(0, 30)),
        ),
        max_size=30,
    ),
)
def test_high_watermark_is_the_smallest_end_of_the_isr_and_monotonic(
    isr: tuple[int, ...], events: list[tuple[str | int, int]]
) -> None:
    partition = make_partition(*isr)
    ends = {LOCAL: 0, SECOND: -1, THIRD: -1}
    expected = 0
    for who, number in events:
        if who == "append":
            ends[LOCAL] = append(partition, number)
        elif number <= ends[LOCAL]:
            partition.read(number, PLENTY, follower_id=int(who))
            ends[int(who)] = number
        else:
            with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
                partition.read(number, PLENTY, follower_id=int(who))
        expected = max(expected, min(ends[replica] for replica in isr))
        assert partition.high_watermark == expected


# What a reader sees ------------------------------------------------------------------------------


def test_consumers_never_see_past_the_high_watermark_and_followers_do() -> None:
    partition = make_partition(LOCAL, SECOND)
    for _ in range(4):
        append(partition)
    assert offsets(partition.read(0, PLENTY)) == []
    assert offsets(partition.read(0, PLENTY, follower_id=SECOND)) == [0, 1, 2, 3]
    partition.read(2, PLENTY, follower_id=SECOND)
    read = partition.read(0, PLENTY)
    assert offsets(read) == [0, 1]
    assert read.high_watermark == 2
    assert offsets(partition.read(0, PLENTY, committed_only=True)) == [0, 1]


def test_a_read_between_high_watermark_and_log_end_is_empty_and_beyond_it_out_of_range() -> None:
    partition = make_partition(LOCAL, SECOND)
    append(partition, 4)
    assert partition.read(3, PLENTY).records is None
    assert partition.read(4, PLENTY).records is None
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        partition.read(5, PLENTY)


def test_committed_readers_stop_at_the_first_open_transaction() -> None:
    partition = make_partition(LOCAL)
    append(partition, 2)
    transactional = batch(2, producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    verified(partition.log, 9)
    partition.append(transactional, -1, NOW_MS)
    append(partition)
    assert partition.last_stable_offset == 2
    committed = partition.read(0, PLENTY, committed_only=True)
    assert offsets(committed) == [0]
    assert (committed.high_watermark, committed.last_stable_offset) == (5, 2)
    assert committed.aborted == []
    uncommitted = partition.read(0, PLENTY)
    assert offsets(uncommitted) == [0, 2, 4]
    assert uncommitted.aborted is None


def test_the_answer_to_a_follower_carries_the_high_watermark_from_before_its_fetch() -> None:
    partition = make_partition(LOCAL, SECOND)
    append(partition, 2)
    assert partition.read(2, PLENTY, follower_id=SECOND).high_watermark == 0
    assert partition.read(2, PLENTY, follower_id=SECOND).high_watermark == 2


# Appending ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("isr", "needed", "accepted"),
    [
        ((LOCAL,), 1, True),
        ((LOCAL,), 2, False),
        ((LOCAL, SECOND), 2, True),
        ((LOCAL, SECOND), 3, False),
        ((LOCAL, SECOND, THIRD), 3, True),
    ],
)
def test_acks_all_needs_min_insync_replicas(
    isr: tuple[int, ...], needed: int, accepted: bool
) -> None:
    partition = make_partition(*isr, min_insync_replicas=needed)
    if accepted:
        append(partition)
        assert partition.log.log_end_offset == 1
        return
    with refused(ErrorCode.NOT_ENOUGH_REPLICAS):
        append(partition)
    assert partition.log.log_end_offset == 0
    append(partition, acks=1)
    append(partition, acks=0)
    assert partition.log.log_end_offset == 2


def test_acks_all_never_needs_more_replicas_than_there_are() -> None:
    log = make_log(replace(TopicConfig(), min_insync_replicas=2))
    partition = Partition(LOCAL, log, state(isr=(LOCAL,), replicas=(LOCAL,)))
    assert append(partition) == 1


def test_a_replica_that_does_not_lead_takes_no_appends_and_answers_no_reads() -> None:
    partition = make_partition(LOCAL)
    append(partition)
    partition.apply(state(leader=SECOND, epoch=1, isr=(SECOND, LOCAL)))
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        append(partition)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        partition.read(0, PLENTY)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        partition.delete_records(0)
    assert partition.log.log_end_offset == 1


def test_appends_carry_the_leader_epoch() -> None:
    partition = make_partition(LOCAL)
    append(partition, 2)
    partition.apply(state(epoch=3, partition_epoch=1))
    append(partition, 2)
    assert partition.log.end_offset_for_epoch(0) == (0, 2)
    assert partition.log.end_offset_for_epoch(3) == (3, 4)


def test_a_duplicate_of_an_idempotent_producer_moves_nothing() -> None:
    partition = make_partition(LOCAL)
    first = partition.append(batch(3, producer_id=4, producer_epoch=0, base_sequence=0), -1, NOW_MS)
    again = partition.append(batch(3, producer_id=4, producer_epoch=0, base_sequence=0), -1, NOW_MS)
    assert (first.duplicate, again.duplicate) == (False, True)
    assert (again.first_offset, again.last_offset) == (0, 2)
    assert partition.high_watermark == partition.log.log_end_offset == 3


def test_a_failed_disk_takes_the_partition_offline() -> None:
    disk = MemoryDisk()
    partition = make_partition(LOCAL, disk=disk)
    append(partition)
    disk.fail(errno.EIO, operations=frozenset({"append"}))
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        append(partition)
    disk.heal()
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        append(partition)
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        partition.read(0, PLENTY)
    assert partition.high_watermark == 1


# Epochs ------------------------------------------------------------------------------------------


def test_an_older_leader_epoch_is_ignored() -> None:
    partition = make_partition(LOCAL)
    partition.apply(state(epoch=5, isr=(LOCAL, SECOND), partition_epoch=9))
    partition.apply(state(leader=SECOND, epoch=4, isr=(SECOND,), partition_epoch=10))
    assert partition.is_leader
    assert (partition.leader_epoch, partition.isr) == (5, (LOCAL, SECOND))


def test_an_older_partition_epoch_of_the_same_leader_is_ignored() -> None:
    partition = make_partition(LOCAL)
    partition.apply(state(epoch=1, isr=(LOCAL, SECOND), partition_epoch=7))
    partition.apply(state(epoch=1, isr=(LOCAL,), partition_epoch=6))
    assert partition.isr == (LOCAL, SECOND)
    partition.apply(state(epoch=1, isr=(LOCAL, THIRD), partition_epoch=8))
    assert partition.isr == (LOCAL, THIRD)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_request_of_another_epoch_is_fenced(asked: int, code: ErrorCode) -> None:
    partition = make_partition(LOCAL)
    partition.apply(state(epoch=3))
    with refused(code):
        partition.check_leader(asked)
    with refused(code):
        partition.read(0, PLENTY, current_leader_epoch=asked)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (3, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_follower_looks_at_the_epoch_first(asked: int, code: ErrorCode) -> None:
    partition = make_partition(LOCAL, SECOND)
    partition.apply(state(epoch=3, leader=SECOND, isr=(LOCAL, SECOND)))
    with refused(code):
        partition.check_leader(asked)


@pytest.mark.parametrize("asked", [-1, 3])
def test_the_current_epoch_and_no_epoch_are_served(asked: int) -> None:
    partition = make_partition(LOCAL)
    partition.apply(state(epoch=3))
    partition.check_leader(asked)
    assert partition.read(0, PLENTY, current_leader_epoch=asked).records is None


def test_a_fenced_follower_does_not_move_the_high_watermark() -> None:
    partition = make_partition(LOCAL, SECOND)
    append(partition, 4)
    partition.apply(state(epoch=1, isr=(LOCAL, SECOND), partition_epoch=1))
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        partition.read(4, PLENTY, current_leader_epoch=0, follower_id=SECOND)
    assert partition.high_watermark == 0


def test_a_stranger_is_no_follower() -> None:
    partition = make_partition(LOCAL, SECOND)
    with refused(ErrorCode.UNKNOWN_LEADER_EPOCH):
        partition.read(0, PLENTY, current_leader_epoch=0, follower_id=77)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        partition.read(0, PLENTY, follower_id=77)


def test_a_diverging_follower_is_told_where_to_cut() -> None:
    """Epoch 0 wrote 0-3, epoch 2 the rest; the follower says it has more of epoch 0 or 1."""
    partition = make_partition(LOCAL, SECOND)
    append(partition, 4)
    partition.apply(state(epoch=2, isr=(LOCAL, SECOND), partition_epoch=1))
    append(partition, 2)

    longer = partition.read(5, PLENTY, last_fetched_epoch=0, follower_id=SECOND)
    assert longer.diverging_epoch == (0, 4)
    unknown_epoch = partition.read(4, PLENTY, last_fetched_epoch=1, follower_id=SECOND)
    assert unknown_epoch.diverging_epoch == (0, 4)
    assert longer.records is None
    assert partition.high_watermark == 0, "a log that diverges is no copy of ours"

    prefix = partition.read(4, PLENTY, last_fetched_epoch=0, follower_id=SECOND)
    assert prefix.diverging_epoch is None
    assert offsets(prefix) == [4]
    assert partition.high_watermark == 4


def test_a_follower_with_an_epoch_from_the_future_is_out_of_range() -> None:
    partition = make_partition(LOCAL, SECOND)
    append(partition, 2)
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        partition.read(2, PLENTY, last_fetched_epoch=9, follower_id=SECOND)


# Deleting records --------------------------------------------------------------------------------


def test_delete_records_moves_the_start_up_to_the_high_watermark() -> None:
    partition = make_partition(LOCAL, SECOND)
    for _ in range(4):
        append(partition)
    partition.read(3, PLENTY, follower_id=SECOND)
    assert partition.delete_records(2) == 2
    assert partition.delete_records(1) == 2, "never back"
    assert partition.delete_records(-1) == 3, "-1 is the high watermark"
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        partition.delete_records(4)
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        partition.delete_records(-2)
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        partition.read(2, PLENTY)
    assert offsets(partition.read(3, PLENTY, follower_id=SECOND)) == [3]

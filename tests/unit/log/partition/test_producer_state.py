"""Idempotence and open transactions, as one log sees them."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import pytest
from tests.support.partition_log import NOW_MS, make_batch

from moldau.errors import ErrorCode, KafkaError
from moldau.log.files.producer_snapshot import encode_snapshot
from moldau.log.partition.producer_state import (
    MOST_PRODUCERS,
    AppendOrigin,
    EndMarker,
    ProducerState,
)
from moldau.records.batch import MAX_SEQUENCE, BatchHeader, read_header

CLIENT = AppendOrigin.CLIENT


def header(
    sequence: int, *, count: int = 1, epoch: int = 0, producer: int = 7, transactional: bool = False
) -> BatchHeader:
    return read_header(
        make_batch(
            count,
            producer_id=producer,
            producer_epoch=epoch,
            sequence=sequence,
            transactional=transactional,
        )
    )


class Log:
    """Offsets given out one after the other."""

    def __init__(self) -> None:
        self.state = ProducerState()
        self.end = 0

    def append(self, batch: BatchHeader) -> int | None:
        """The offset, or that of the first time if it is a duplicate."""
        duplicate = self.state.check(batch, CLIENT)
        if duplicate is not None:
            return duplicate.first_offset
        self.state.record_batch(batch, self.end, batch.max_timestamp)
        self.end += batch.records_count
        return self.end - batch.records_count

    def refusal(self, batch: BatchHeader) -> ErrorCode:
        with pytest.raises(KafkaError) as error:
            self.append(batch)
        return error.value.code

    def end_transaction(self, *, commit: bool, producer: int = 7, epoch: int = 0) -> object:
        marker = header(0, producer=producer, epoch=epoch)._replace(
            base_offset=self.end, base_sequence=-1
        )
        self.end += 1
        return self.state.record_marker(marker, EndMarker(commit, 0), NOW_MS)


def test_sequences_follow_each_other() -> None:
    log = Log()
    assert log.append(header(0, count=3)) == 0
    assert log.append(header(3)) == 3
    assert log.refusal(header(5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(header(4)) == 4


def test_the_last_five_batches_are_known_again() -> None:
    log = Log()
    for number in range(6):
        log.append(header(number * 2, count=2))
    for number in range(1, 6):
        assert log.append(header(number * 2, count=2)) == number * 2
    assert log.refusal(header(0, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.refusal(header(10)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "other size"


def test_a_producer_never_seen_may_start_anywhere() -> None:
    log = Log()
    assert log.append(header(55)) == 0
    assert log.append(header(56)) == 1


def test_sequences_wrap_to_zero() -> None:
    log = Log()
    log.append(header(MAX_SEQUENCE - 1, count=2))
    assert log.append(header(0)) == 2
    log = Log()
    assert log.append(header(MAX_SEQUENCE, count=3)) == 0
    assert log.append(header(2)) == 3
    assert log.append(header(MAX_SEQUENCE, count=3)) == 0, "a duplicate across the wrap"


def test_a_new_epoch_starts_at_zero_and_fences_the_old_one() -> None:
    log = Log()
    log.append(header(0))
    assert log.refusal(header(1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(header(0, epoch=1)) == 1
    assert log.refusal(header(1, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.refusal(header(0, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_producers_do_not_disturb_each_other() -> None:
    log = Log()
    log.append(header(0, producer=1))
    log.append(header(0, producer=2))
    assert log.append(header(1, producer=1)) == 2


def test_idle_producers_are_forgotten() -> None:
    log = Log()
    log.append(header(0))
    log.append(header(0, producer=8, transactional=True))
    log.state.expire(NOW_MS - 1)
    assert set(log.state.producers) == {7, 8}
    log.state.expire(NOW_MS)
    assert set(log.state.producers) == {8}, "an open transaction keeps its producer"


def test_what_a_snapshot_keeps() -> None:
    log = Log()
    log.append(header(0, count=2))
    log.append(header(2, count=3))
    log.append(header(0, producer=8, transactional=True))
    again = ProducerState()
    again.load(log.state.snapshot(), log.end, NOW_MS - 1)
    assert again.end_offset == log.end
    assert again.first_undecided_offset == 5
    duplicate = again.check(header(2, count=3), CLIENT)
    assert duplicate is not None
    assert duplicate.first_offset == 2
    assert again.check(header(5), CLIENT) is None


def restarted(log: Log) -> Log:
    """A log whose producers are known from a snapshot."""
    again = Log()
    again.state.load(log.state.snapshot(), log.end, NOW_MS - 1)
    again.end = log.end
    return again


def test_batches_from_before_a_restart_are_known_to_be_stored() -> None:
    log = Log()
    for number in range(5):
        log.append(header(number * 2, count=2))
    log = restarted(log)
    assert log.append(header(8, count=2)) == 8, "the last one is in the snapshot"
    for number in range(4):
        code = log.refusal(header(number * 2, count=2))
        assert code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER, "no producer may send it anew"
    assert log.refusal(header(11)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(header(10)) == 10


def test_batches_from_before_a_restart_are_known_over_the_wrap_of_sequences() -> None:
    log = Log()
    for sequence in (MAX_SEQUENCE - 1, MAX_SEQUENCE, 0, 1):
        log.append(header(sequence))
    log = restarted(log)
    for sequence in (MAX_SEQUENCE - 1, MAX_SEQUENCE, 0):
        assert log.refusal(header(sequence)) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert log.append(header(2)) == 4


def test_once_five_batches_have_come_a_restart_is_forgotten() -> None:
    log = Log()
    for number in range(3):
        log.append(header(number))
    log = restarted(log)
    for number in range(3, 8):
        log.append(header(number))
    assert log.refusal(header(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_after_a_restart_knows_its_own_batches_only() -> None:
    log = Log()
    log.append(header(0))
    log = restarted(log)
    log.append(header(0, epoch=1))
    log.append(header(1, epoch=1))
    assert log.refusal(header(5, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_expired_producers_are_not_loaded() -> None:
    log = Log()
    log.append(header(0))
    again = ProducerState()
    again.load(log.state.snapshot(), log.end, NOW_MS)
    assert again.producers == {}


# Transactions ------------------------------------------------------------------------------------


def test_an_open_transaction_bounds_what_is_stable() -> None:
    log = Log()
    log.append(header(0, producer=1))
    log.append(header(0, producer=2, transactional=True))
    log.append(header(0, producer=3, transactional=True))
    assert log.state.first_undecided_offset == 1
    log.end_transaction(commit=True, producer=2)
    assert log.state.first_undecided_offset == 2
    # The marker at offset 3 counts once it is replicated.
    assert log.state.first_unstable_offset(3) == 1
    assert log.state.first_unstable_offset(4) == 2
    log.end_transaction(commit=True, producer=3)
    assert log.state.first_unstable_offset(99) is None


def test_an_aborted_transaction_is_answered_for_the_index() -> None:
    log = Log()
    log.append(header(0, producer=2, transactional=True))
    log.append(header(0, producer=3, transactional=True))
    assert log.end_transaction(commit=False, producer=3) == (3, 1, 2, 0)
    assert log.end_transaction(commit=False, producer=2) == (2, 0, 3, 4)
    assert log.end_transaction(commit=False, producer=2) is None, "nothing was open"


def test_sequences_go_on_after_a_transaction() -> None:
    log = Log()
    log.append(header(0, transactional=True))
    log.end_transaction(commit=True)
    assert log.append(header(1, transactional=True)) == 2


def test_a_plain_batch_inside_a_transaction_is_refused() -> None:
    log = Log()
    log.append(header(0, transactional=True))
    assert log.refusal(header(1)) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_with_a_new_epoch_fences_the_producer() -> None:
    log = Log()
    log.append(header(0, transactional=True))
    log.end_transaction(commit=False, epoch=1)
    assert log.refusal(header(1, transactional=True)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.append(header(0, epoch=1, transactional=True)) == 2


# Too many of them --------------------------------------------------------------------------------

FIRST = 1_000
"""The id of the first of many producers."""


def write_as_many(log: Log, count: int, first: int = FIRST) -> None:
    batch = header(0)
    for number in range(count):
        log.append(batch._replace(producer_id=first + number))


def test_of_too_many_producers_those_that_wrote_longest_ago_are_forgotten() -> None:
    log = Log()
    log.append(header(0, producer=1))
    log.append(header(0, producer=2))
    write_as_many(log, MOST_PRODUCERS - 2)
    assert len(log.state.producers) == MOST_PRODUCERS
    log.append(header(1, producer=1))
    write_as_many(log, 1, first=1)  # a duplicate writes nothing
    log.append(header(0, producer=3))
    assert len(log.state.producers) <= MOST_PRODUCERS
    assert 1 in log.state.producers, "it has just written"
    assert 3 in log.state.producers
    assert 2 not in log.state.producers
    assert log.state.forgotten == MOST_PRODUCERS + 1 - len(log.state.producers)
    assert log.refusal(header(7, producer=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    end = log.end
    assert log.append(header(0, producer=2)) == end, "nobody knows it any more"


def test_a_producer_that_goes_on_writing_is_never_forgotten() -> None:
    log = Log()
    for number in range(30):
        write_as_many(log, MOST_PRODUCERS // 10, first=FIRST * (number + 1) * 10)
        assert log.append(header(number)) == log.end - 1
        assert log.append(header(number)) == log.end - 1, "the same again"
    assert len(log.state.producers) <= MOST_PRODUCERS


def test_times_that_producers_choose_save_nobody() -> None:
    log = Log()
    later = header(0, producer=1)._replace(max_timestamp=NOW_MS + 10**12)
    log.append(later)
    write_as_many(log, MOST_PRODUCERS)
    assert 1 not in log.state.producers


def test_open_transactions_keep_their_producers() -> None:
    log = Log()
    batch = header(0, transactional=True)
    for number in range(MOST_PRODUCERS + 10):
        log.append(batch._replace(producer_id=number))
    assert len(log.state.producers) == MOST_PRODUCERS + 10
    log.append(header(0, producer=FIRST * FIRST))
    assert FIRST * FIRST in log.state.producers
    for number in range(MOST_PRODUCERS + 10):
        log.end_transaction(commit=True, producer=number)
    write_as_many(log, MOST_PRODUCERS, first=FIRST * FIRST * 10)
    assert len(log.state.producers) <= MOST_PRODUCERS


def test_a_snapshot_with_too_many_producers_is_cut() -> None:
    log = Log()
    write_as_many(log, MOST_PRODUCERS)
    entries = log.state.snapshot()
    older = [entry._replace(producer_id=entry.producer_id + 10**6) for entry in entries[:50]]
    newest = entries[-1]._replace(producer_id=7, last_offset=log.end)
    again = ProducerState()
    again.load([*older, *entries, newest], log.end + 1, NOW_MS - 1)
    assert len(again.producers) <= MOST_PRODUCERS
    assert {7, entries[-1].producer_id} <= again.producers.keys()
    assert not again.producers.keys() & {entry.producer_id for entry in older}


def test_a_log_full_of_producers_costs_its_broker_little() -> None:
    """Of memory, of the turn in which the oldest are forgotten, and of that of a roll."""
    tracemalloc.start()
    log = Log()
    write_as_many(log, MOST_PRODUCERS)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < MOST_PRODUCERS * 1_500

    def best(action: Callable[[], object]) -> float:
        times = []
        for _ in range(5):
            before = time.thread_time()
            action()
            times.append(time.thread_time() - before)
        return min(times)

    assert best(lambda: encode_snapshot(log.state.snapshot())) < 0.05
    assert best(log.state._forget_oldest) < 0.05

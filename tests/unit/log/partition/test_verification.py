"""Batches that begin transactions, and markers that end them: what a log believes."""

from __future__ import annotations

import pytest
from tests.support.partition_log import NOW_MS, make_batch, open_log

from moldau.errors import ErrorCode, KafkaError
from moldau.log import AppendOrigin, PartitionLog, Verification
from moldau.records.control import TransactionMarker
from moldau.testing.disk import MemoryDisk

PRODUCER = 9


@pytest.fixture
def log(disk: MemoryDisk) -> PartitionLog:
    return open_log(disk)


def append(log: PartitionLog, sequence: int, epoch: int = 0) -> ErrorCode:
    batch = make_batch(
        producer_id=PRODUCER, producer_epoch=epoch, sequence=sequence, transactional=True
    )
    try:
        log.append_as_leader(batch, 0, NOW_MS)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def ask(
    log: PartitionLog, sequence: int = 0, epoch: int = 0, *, starts_epoch: bool = False
) -> Verification:
    asked = log.producers.begin_verification(PRODUCER, epoch, sequence, starts_epoch=starts_epoch)
    assert asked is not None
    return asked


def mark(
    log: PartitionLog, epoch: int = 0, coordinator_epoch: int = 0, *, raises_epoch: bool = False
) -> ErrorCode:
    marker = TransactionMarker(PRODUCER, epoch, True, coordinator_epoch, raises_epoch)
    try:
        log.producers.check_marker(
            PRODUCER, epoch, coordinator_epoch, raises_epoch=marker.raises_epoch
        )
    except KafkaError as error:
        return error.code
    batch = memoryview(marker.batch(NOW_MS))
    log.append_as_leader(batch, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    return ErrorCode.NONE


def test_nothing_begins_a_transaction_that_the_coordinator_does_not_know(
    log: PartitionLog,
) -> None:
    assert append(log, 0) is ErrorCode.INVALID_TXN_STATE
    asked = ask(log)
    assert append(log, 0) is ErrorCode.INVALID_TXN_STATE, "it has not answered"
    asked.done = True
    assert append(log, 0) is ErrorCode.NONE
    assert append(log, 1) is ErrorCode.NONE, "the transaction is open"
    assert log.producers.begin_verification(PRODUCER, 0, 2, starts_epoch=False) is None


def test_a_late_batch_does_not_begin_the_next_transaction(log: PartitionLog) -> None:
    ask(log).done = True
    append(log, 0)
    late = ask(log, 0, epoch=1)
    assert mark(log, 1) is ErrorCode.NONE
    assert not log.producers.is_awaited(PRODUCER, late)
    assert append(log, 0, epoch=1) is ErrorCode.INVALID_TXN_STATE
    assert append(log, 1) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_marker_of_the_last_transaction_leaves_the_question_of_the_next(
    log: PartitionLog,
) -> None:
    ask(log, starts_epoch=True).done = True
    append(log, 0)
    following = ask(log, epoch=1, starts_epoch=True)
    assert mark(log, 1, raises_epoch=True) is ErrorCode.NONE
    assert log.producers.is_awaited(PRODUCER, following)
    following.done = True
    assert append(log, 0, epoch=1) is ErrorCode.NONE


def test_what_waits_is_stored_in_its_order(log: PartitionLog) -> None:
    asked = ask(log, 1)
    assert ask(log, 0) is asked
    asked.done = True
    assert append(log, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, 0) is ErrorCode.NONE


def test_a_transaction_with_an_epoch_of_its_own_begins_with_0(log: PartitionLog) -> None:
    asked = ask(log, 3, starts_epoch=True)
    asked.done = True
    assert append(log, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_marker_of_an_older_coordinator_or_producer_is_refused(log: PartitionLog) -> None:
    ask(log, epoch=2).done = True
    append(log, 0, epoch=2)
    assert mark(log, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert mark(log, 2, coordinator_epoch=5) is ErrorCode.NONE
    assert mark(log, 2, coordinator_epoch=4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert mark(log, 2, coordinator_epoch=5) is ErrorCode.NONE


def test_a_marker_that_raises_the_epoch_may_come_twice_but_not_for_the_next_transaction(
    log: PartitionLog,
) -> None:
    ask(log, starts_epoch=True).done = True
    append(log, 0)
    assert mark(log, 0, raises_epoch=True) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert mark(log, 1, raises_epoch=True) is ErrorCode.NONE
    assert mark(log, 1, raises_epoch=True) is ErrorCode.NONE
    ask(log, epoch=1, starts_epoch=True).done = True
    append(log, 0, epoch=1)
    assert mark(log, 1, raises_epoch=True) is ErrorCode.INVALID_PRODUCER_EPOCH

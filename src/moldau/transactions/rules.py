"""What producers may ask of the coordinator: each rule takes what is known of a transactional id
and returns the step to write, or raises the KafkaError that the producer is told.

Where markers are on their way that is looked at first: until they have arrived a producer may
rightly know an id and an epoch that are not in force yet (KIP-890), and is to ask again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.transactions.metadata import (
    LARGEST_EPOCH,
    TransactionMetadata,
    TransactionVersion,
    is_exhausted,
)
from moldau.transactions.states import TransactionState
from moldau.wire.stored.transaction_records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

SERVER_VERSION: Final = TransactionVersion.TV_2
"""Of what the coordinator does by itself, whatever the producer speaks."""


class ProducerIdNeededError(Exception):
    """The step needs a producer id that nobody has had: ask again with one."""


class Producer(NamedTuple):
    """Who a producer says to be."""

    producer_id: int
    epoch: int


class EndOfTransaction(NamedTuple):
    """What came of an EndTxn."""

    metadata: TransactionMetadata
    is_new: bool
    """Otherwise the producer asks again for what is done."""


# InitProducerId ----------------------------------------------------------------------------------


def init_producer_id(
    known: TransactionMetadata | None,
    transactional_id: str,
    timeout_ms: int,
    expected: Producer | None,
    new_producer_id: int | None,
    now_ms: int,
) -> TransactionMetadata:
    """Give a producer an epoch that fences all before it; ``expected`` is what one that goes on
    after an error had (KIP-360). An open transaction is aborted instead, see ``fenced``.
    """
    if known is None:
        known = TransactionMetadata(
            transactional_id=transactional_id,
            producer_id=_needed(new_producer_id),
            timeout_ms=timeout_ms,
            updated_ms=now_ms,
        )
    if known.state.is_decided:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected is not None and not _is_present(known, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if known.state is TransactionState.ONGOING:
        if expected is not None and expected.epoch != known.producer_epoch:
            # A request from before this transaction, or of a producer that is fenced.
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return fenced(known, now_ms)
    epoch, last_epoch = _next_epoch(known, expected)
    if epoch >= LARGEST_EPOCH:  # which is for fencing, and no producer's
        return known.begun(_needed(new_producer_id), 0, last_epoch, timeout_ms, now_ms)
    return known.begun(known.producer_id, epoch, last_epoch, timeout_ms, now_ms)


def fenced(known: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """Abort an open transaction whose producer is not asked: the epoch rises, once."""
    return known.decided(commit=False, version=SERVER_VERSION, now_ms=now_ms)


def _is_present(known: TransactionMetadata, expected: Producer) -> bool:
    """Whether the producer is the last one, or was when it asked for the present id."""
    return (
        known.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == known.producer_id
        or (expected.producer_id == known.previous_producer_id and is_exhausted(expected.epoch))
    )


def _next_epoch(known: TransactionMetadata, expected: Producer | None) -> tuple[int, int]:
    """Returns the epoch that a producer gets, and the one before it that may ask for it again."""
    present = known.producer_epoch
    if expected is None:
        return present + 1, NO_PRODUCER_EPOCH
    if expected.epoch == present or present == NO_PRODUCER_EPOCH:
        return present + 1, present
    if expected.epoch == known.last_producer_epoch:
        return present, known.last_producer_epoch  # the answer before this one was lost
    raise KafkaError(ErrorCode.PRODUCER_FENCED)


def _needed(producer_id: int | None) -> int:
    if producer_id is None:
        raise ProducerIdNeededError
    return producer_id


# AddPartitionsToTxn and AddOffsetsToTxn ----------------------------------------------------------


def add_partitions(
    known: TransactionMetadata | None,
    producer: Producer,
    partitions: frozenset[TopicPartition],
    version: TransactionVersion,
    now_ms: int,
) -> TransactionMetadata | None:
    """Returns None if all of them take part already."""
    known = _of_producer(known, producer)
    if known.state is TransactionState.ONGOING and partitions <= known.partitions:
        return None
    return known.with_partitions(partitions, version, now_ms)


def verify_partitions(
    known: TransactionMetadata | None, producer: Producer, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Returns for each partition whether it takes part in the open transaction."""
    known = _of_producer(known, producer)
    return {
        partition: ErrorCode.NONE
        if partition in known.partitions
        else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def _of_producer(known: TransactionMetadata | None, producer: Producer) -> TransactionMetadata:
    if known is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if known.state.is_decided:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if known.producer_id != producer.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if known.producer_epoch != producer.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return known


# EndTxn ------------------------------------------------------------------------------------------


def end_transaction(
    known: TransactionMetadata | None,
    producer: Producer,
    *,
    commit: bool,
    version: TransactionVersion,
    new_producer_id: int | None,
    now_ms: int,
) -> EndOfTransaction:
    if known is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if version.bumps_epoch:
        return _end_with_bump(known, producer, commit, version, new_producer_id, now_ms)
    if known.producer_id != producer.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if known.producer_epoch != producer.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if known.state.is_decided:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if known.state is TransactionState.ONGOING:
        return EndOfTransaction(known.decided(commit=commit, version=version, now_ms=now_ms), True)
    if known.state is _completed(commit):
        return EndOfTransaction(known, False)
    raise KafkaError(ErrorCode.INVALID_TXN_STATE)


def _end_with_bump(
    known: TransactionMetadata,
    producer: Producer,
    commit: bool,
    version: TransactionVersion,
    new_producer_id: int | None,
    now_ms: int,
) -> EndOfTransaction:
    """Under KIP-890 the epoch tells a producer that asks again, which has the one before, from one
    whose next transaction ends. That may be an abort without a single partition: who aborts does
    not know what has arrived, and must be sure that nothing more does.
    """
    if known.state.is_decided:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_complete = known.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    is_overflow = (
        is_complete
        and producer == (known.previous_producer_id, LARGEST_EPOCH - 1)
        and known.producer_epoch == 0
    )
    asks_again = is_overflow or (
        is_complete
        # Else the epoch is that of another producer, whose end, in the older protocol, raised none.
        and known.client_version.bumps_epoch
        and known.producer_epoch == producer.epoch + 1
    )
    if known.producer_id != producer.producer_id and not is_overflow:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if known.producer_epoch != producer.epoch and not asks_again:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if asks_again:
        if known.state is not _completed(commit):
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        return EndOfTransaction(known, False)
    if commit and known.state is not TransactionState.ONGOING:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    next_producer_id = NO_PRODUCER_ID
    if known.is_epoch_exhausted:
        next_producer_id = _needed(new_producer_id)
    ended = known.decided(
        commit=commit, version=version, now_ms=now_ms, next_producer_id=next_producer_id
    )
    return EndOfTransaction(ended, True)


def _completed(commit: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT

"""Records of ``__transaction_state``, from what they say to their bytes and back."""

from __future__ import annotations

from collections import defaultdict

from moldau.model import TopicPartition
from moldau.outcome import Record
from moldau.transactions.metadata import TransactionMetadata, TransactionVersion
from moldau.transactions.states import TransactionState
from moldau.wire.stored.transaction_records import (
    TRANSACTION_RECORDS,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)


def to_record(metadata: TransactionMetadata) -> Record:
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(metadata.partitions):
        topics[topic].append(partition)
    is_empty = metadata.state is TransactionState.EMPTY
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        last_producer_epoch=metadata.last_producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None
        if is_empty
        else tuple(PartitionsSchema(topic, tuple(ids)) for topic, ids in topics.items()),
        transaction_last_update_timestamp_ms=metadata.updated_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )
    return Record(*TRANSACTION_RECORDS.encode(TransactionLogKey(metadata.transactional_id), value))


def tombstone(transactional_id: str) -> Record:
    return Record(*TRANSACTION_RECORDS.encode(TransactionLogKey(transactional_id), None))


def from_record(key: bytes, value: bytes | None) -> tuple[str, TransactionMetadata | None] | None:
    """What a record says of a transactional id; None when it is of a type that is not known here.

    Raises ``DecodeError`` for damaged records and for those of versions from the future.
    """
    decoded = TRANSACTION_RECORDS.decode(key, value)
    if decoded is None:
        return None
    known, content = decoded
    if content is None:
        return known.transactional_id, None
    return known.transactional_id, TransactionMetadata(
        transactional_id=known.transactional_id,
        producer_id=content.producer_id,
        producer_epoch=content.producer_epoch,
        previous_producer_id=content.previous_producer_id,
        next_producer_id=content.next_producer_id,
        last_producer_epoch=content.last_producer_epoch,
        timeout_ms=content.transaction_timeout_ms,
        state=TransactionState(content.transaction_status),
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in content.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_ms=content.transaction_start_timestamp_ms,
        updated_ms=content.transaction_last_update_timestamp_ms,
        client_version=TransactionVersion(content.client_transaction_version),
    )

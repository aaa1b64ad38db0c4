"""Batches in transactions: before the first one of a transaction is stored in a partition, the
coordinator has to know that the partition takes part.

Producers of today leave that to the leader, which asks the coordinator to add the partition.
Those before Produce version 12 have done it themselves, and the leader makes sure of it: a batch
that comes when its transaction is over must not begin one that nobody ends (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from inspect import isawaitable
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from moldau.broker.add_partitions_to_txn import Errors, add_partitions_to_txn
from moldau.errors import ErrorCode, KafkaError
from moldau.log import Verification
from moldau.model import TopicPartition
from moldau.records.batch import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    MAGIC,
    MAGIC_OFFSET,
    PRODUCER_ID_OFFSET,
    TRANSACTIONAL_FLAG,
)
from moldau.replication import Partition
from moldau.transactions.rules import Producer
from moldau.wire.produce import ProduceTopic

if TYPE_CHECKING:
    from moldau.broker.broker import Broker

FIRST_WITH_ABORTABLE: Final = 11
"""The first version of Produce whose producers know TRANSACTION_ABORTABLE."""
FIRST_THAT_ADDS: Final = 12
"""The first version of Produce that is itself the announcement of its partitions."""

_PRODUCER: Final = Struct(">qhi")
_TO_BE_RETRIED: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        # The coordinator has not heard of another partition of the request yet.
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
"""A producer does not expect these of a leader. It is told what makes it send the batch again, and
not ask for metadata before.
"""

Refusals: TypeAlias = dict[TopicPartition, KafkaError]


class Unverified(NamedTuple):
    """A partition whose next batch would begin a transaction."""

    partition: Partition
    verification: Verification


def join_transaction(
    broker: Broker, version: int, transactional_id: str, topics: Iterable[ProduceTopic]
) -> Refusals | Awaitable[Refusals]:
    """Make sure that the partitions of a request take part in the transaction; returns those that
    do not, and why.
    """
    adds = version >= FIRST_THAT_ADDS
    producer, unverified = _unverified(broker, topics, adds)
    if not unverified or producer is None:
        return {}
    partitions = frozenset(each.partition.topic_partition for each in unverified)
    if not adds and not broker.config.transaction_partition_verification_enable:
        return _settle(producer, unverified, {}, version)
    errors = add_partitions_to_txn(
        broker, transactional_id, producer, partitions, verify_only=not adds
    )
    if not isawaitable(errors):
        return _settle(producer, unverified, errors, version)

    async def settle_later() -> Refusals:
        return _settle(producer, unverified, await errors, version)

    return settle_later()


def _unverified(
    broker: Broker, topics: Iterable[ProduceTopic], adds: bool
) -> tuple[Producer | None, list[Unverified]]:
    producer: Producer | None = None
    unverified: list[Unverified] = []
    for topic in topics:
        name = topic.name
        if name is None:
            known = broker.metadata.topics_by_id.get(topic.topic_id) if topic.topic_id else None
            name = "" if known is None else known.name
        here = broker.replicas.topics.get(name, {})
        for index, records in topic.partitions:
            partition = here.get(index)
            if partition is None or not partition.is_leader or not _is_transactional(records):
                continue  # whatever is wrong with it is found where it is appended
            assert records is not None
            producer_id, epoch, sequence = _PRODUCER.unpack_from(records, PRODUCER_ID_OFFSET)
            if producer is not None and producer != (producer_id, epoch):
                raise KafkaError(
                    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                    "Transactional records contained more than one producer ID",
                )
            producer = Producer(producer_id, epoch)
            verification = partition.log.producers.begin_verification(
                producer_id, epoch, sequence, starts_epoch=adds
            )
            if verification is not None:
                unverified.append(Unverified(partition, verification))
    return producer, unverified


def _is_transactional(records: memoryview | None) -> bool:
    return (
        records is not None
        and len(records) >= HEADER_SIZE
        and records[MAGIC_OFFSET] == MAGIC
        and records[ATTRIBUTES_OFFSET + 1] & TRANSACTIONAL_FLAG != 0
    )


def _settle(
    producer: Producer, unverified: Sequence[Unverified], errors: Errors, version: int
) -> Refusals:
    refusals: Refusals = {}
    for partition, verification in unverified:
        code = errors.get(partition.topic_partition, ErrorCode.NONE)
        if code:
            refusals[partition.topic_partition] = produce_error(code, version)
        elif partition.log.producers.is_awaited(producer.producer_id, verification):
            verification.done = True
    return refusals


def produce_error(code: ErrorCode, version: int) -> KafkaError:
    """Returns what a producer is told that may not write in its transaction."""
    if code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_WITH_ABORTABLE:
        return KafkaError(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
    if code in _TO_BE_RETRIED:
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {code.name}",
        )
    return KafkaError(code)

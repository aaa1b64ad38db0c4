"""The records of ``__transaction_state``: what each transactional id is doing.

The annotations are read at run time, so this module does not postpone them.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from moldau.wire.declaring import INT8, INT16, INT32, INT64, STRING, tagged
from moldau.wire.stored.record_types import RecordType, RecordTypes

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
OWN_TAG: Final = 1000
"""Of a field that Kafka does not have: its readers skip tags that they do not know."""


@dataclass(frozen=True, slots=True)
class TransactionLogKey:
    transactional_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class PartitionsSchema:
    """Partitions of one topic that take part in a transaction."""

    topic: str = field(metadata=STRING)
    partition_ids: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogValue:
    NEWEST: ClassVar = 1
    FLEXIBLE: ClassVar = 1
    write_version: ClassVar = 1

    producer_id: int = field(metadata=INT64)
    previous_producer_id: int = field(metadata=INT64 | tagged(0, since=1), default=NO_PRODUCER_ID)
    """Of the last committed transaction."""
    next_producer_id: int = field(metadata=INT64 | tagged(1, since=1), default=NO_PRODUCER_ID)
    """The one that the producer was last told, where that is not ``producer_id`` yet."""
    producer_epoch: int = field(metadata=INT16)
    next_producer_epoch: int = field(metadata=INT16 | tagged(3, since=1), default=NO_PRODUCER_EPOCH)
    """The epoch that goes with ``next_producer_id``."""
    last_producer_epoch: int = field(
        metadata=INT16 | tagged(OWN_TAG, since=1), default=NO_PRODUCER_EPOCH
    )
    """The epoch before, if its producer asked for the present one and may do so again (KIP-360).
    Kafka keeps it in memory only, and fences that producer after a change of coordinators.
    """
    transaction_timeout_ms: int = field(metadata=INT32)
    transaction_status: int = field(metadata=INT8)
    """The state of the transaction, as Kafka numbers it."""
    transaction_partitions: tuple[PartitionsSchema, ...] | None = None
    """None before the first partition of a transaction."""
    transaction_last_update_timestamp_ms: int = field(metadata=INT64)
    transaction_start_timestamp_ms: int = field(metadata=INT64)
    client_transaction_version: int = field(metadata=INT16 | tagged(2, since=1), default=0)


TRANSACTION_RECORDS: Final[RecordTypes[TransactionLogKey, TransactionLogValue]] = RecordTypes(
    {0: RecordType(TransactionLogKey, TransactionLogValue)}
)

"""What can go wrong for a client.

    KafkaError                          has a code, a message, ``retriable``; a server answered it
    ├── ConfigError                     a setting with a wrong name or value
    ├── ProducerFencedError             a newer producer has this transactional.id; this one is over
    ├── OutOfOrderSequenceError         the broker misses records of this producer
    ├── AuthenticationError             the login failed, or there is none of this kind
    │   └── SslAuthenticationError      no TLS connection: a certificate, or no TLS at all
    ├── AuthorizationError              this client may not do that
    ├── OffsetOutOfRangeError           positions that their partitions do not hold
    ├── RecordTooLargeError             a record above max.request.size or max.message.bytes
    ├── CommitFailedError               offsets were not committed: the group has moved on
    ├── TransactionAbortableError       abort the transaction, and the producer can go on
    └── ClientError                     found out here, without an answer
        ├── NoBrokersError              none of the addresses could be reached
        ├── ConnectionLostError         the connection broke while requests were open
        ├── TimedOutError               no answer, or no success, in the time allowed
        │   ├── BufferExhaustedError    no room in the producer's buffer within max.block.ms
        │   └── DeliveryTimeoutError    a record was not acknowledged within delivery.timeout.ms
        ├── UnsupportedApiError         the broker is too old or too new for this request
        ├── UnknownTopicError           the cluster has no such topic or partition
        ├── SerializationError          a key or a value could not be turned into bytes, or back
        ├── LargeMessageError           a large message cannot be put together again
        ├── ClosedError                 the client was closed before this was done
        ├── TransactionStateError       not a moment for this step of a transaction
        ├── WakeupError                 poll() was called off by wakeup()
        ├── ConcurrentAccessError       two threads used one consumer at the same time
        └── NoOffsetForPartitionError   no position, and auto.offset.reset=none

All of them are ``KafkaError``: one ``except`` and one look at ``retriable`` serve them all.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from moldau.config.option import ConfigError
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.request_errors import (
    AuthenticationError,
    AuthorizationError,
    ClientError,
    ConnectionLostError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    RecordTooLargeError,
    SslAuthenticationError,
    TimedOutError,
    TransactionAbortableError,
    UnsupportedApiError,
)

__all__ = [
    "AuthenticationError",
    "AuthorizationError",
    "BufferExhaustedError",
    "ClientError",
    "ClosedError",
    "CommitFailedError",
    "ConcurrentAccessError",
    "ConfigError",
    "ConnectionLostError",
    "DeliveryTimeoutError",
    "KafkaError",
    "LargeMessageError",
    "NoBrokersError",
    "NoOffsetForPartitionError",
    "OffsetOutOfRangeError",
    "OutOfOrderSequenceError",
    "ProducerFencedError",
    "RecordTooLargeError",
    "SerializationError",
    "SslAuthenticationError",
    "TimedOutError",
    "TransactionAbortableError",
    "TransactionStateError",
    "UnknownTopicError",
    "UnsupportedApiError",
    "WakeupError",
    "unforeseen",
]

logger: Final = logging.getLogger(__name__)


class CommitFailedError(KafkaError):
    """The member is no longer part of the generation that its offsets belong to."""

    def __init__(
        self, code: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS, message: str | None = None
    ) -> None:
        super().__init__(code, message)

    @property
    def retriable(self) -> bool:
        return False


class NoBrokersError(ClientError):
    """Worth another try: brokers restart, and every address is tried again."""

    @property
    def retriable(self) -> bool:
        return True

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.BROKER_NOT_AVAILABLE, message)


class BufferExhaustedError(TimedOutError):
    """The brokers take records more slowly than they are sent."""


class DeliveryTimeoutError(TimedOutError):
    """Whether the record was stored is not known, unless it never left this process."""


class UnknownTopicError(ClientError):
    """Kafka calls this code retriable, for topics under creation; here the cluster was asked."""

    @property
    def retriable(self) -> bool:
        return False

    def __init__(self, topic: str, partition: int | None = None) -> None:
        self.topic = topic
        self.partition = partition
        if partition is None:
            message = f"There is no topic {topic!r}"
        else:
            message = f"Topic {topic!r} has no partition {partition}"
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


class SerializationError(ClientError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)


class LargeMessageError(ClientError):
    """A chunked or stored message that is damaged; ``partition`` and ``offset`` say where."""

    def __init__(self, partition: TopicPartition, offset: int, message: str) -> None:
        self.partition = partition
        self.offset = offset
        super().__init__(
            ErrorCode.INVALID_RECORD, f"Large message at {partition} offset {offset}: {message}"
        )


class ClosedError(ClientError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)


class TransactionStateError(ClientError):
    """The program called a method out of turn."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_TXN_STATE, message)


class WakeupError(ClientError):
    """Nothing is wrong: somebody wanted poll() to end."""

    def __init__(self, message: str = "wakeup() was called") -> None:
        super().__init__(ErrorCode.NONE, message)


class ConcurrentAccessError(ClientError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)


class NoOffsetForPartitionError(ClientError):
    """Partitions to start in with nothing that says where; ``partitions`` has them."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = frozenset(partitions)
        names = ", ".join(sorted(map(str, self.partitions)))
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"No offset is committed for {names}, and auto.offset.reset is none",
        )


def unforeseen(doing: str, error: Exception) -> KafkaError:
    """What a program is told of a fault in the client itself; the log has where it was."""
    logger.error("%s failed", doing, exc_info=error)
    return KafkaError(
        ErrorCode.UNKNOWN_SERVER_ERROR, f"{doing} failed: {type(error).__name__}: {error}"
    )

"""Counters of what goes in and out, kept per request and partition, never per record."""

from __future__ import annotations

from typing import Final

from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey

EXPECTED_OF_PRODUCERS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
EXPECTED_OF_CONSUMERS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors that clients bring about or live with: as in Kafka, the counters of failures leave them
out.
"""


class Traffic:
    """Since the start of the broker."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetched_partitions",
        "messages_in",
        "produced_partitions",
        "replication_bytes_out",
        "requests",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        """To consumers; what followers read is replication."""
        self.replication_bytes_out = 0
        self.produced_partitions = 0
        self.fetched_partitions = 0
        self.failed_produces = 0
        self.failed_fetches = 0
        self.requests: dict[int, int] = dict.fromkeys(ApiKey, 0)
        """By API key."""

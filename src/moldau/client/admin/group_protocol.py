"""What classic consumers told their group about themselves, for people who look at it."""

from __future__ import annotations

from moldau.client.consumer.assignors.protocol import decode_assignment, decode_subscription
from moldau.errors import KafkaError
from moldau.model import TopicPartition


def read_subscription(data: bytes) -> tuple[str, ...]:
    """Topic names of a member's subscription; none if the bytes are no consumer's."""
    try:
        return decode_subscription(data).topics
    except KafkaError:
        return ()


def read_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Partitions of a member's assignment; none if the bytes are no consumer's."""
    try:
        return tuple(sorted(decode_assignment(data).partitions))
    except KafkaError:
        return ()

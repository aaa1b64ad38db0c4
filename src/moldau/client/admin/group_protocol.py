"""What classic consumers told their group about themselves, for people who look at it."""

from __future__ import annotations

from moldau.client.consumer.assignors.embedded import decode_assignment
from moldau.errors import KafkaError
from moldau.model import TopicPartition
from moldau.wire.embedded_protocol import subscribed_topics


def read_subscription(data: bytes) -> tuple[str, ...]:
    """Topic names of a member's subscription; none if the bytes are no consumer's."""
    return subscribed_topics(data) or ()


def read_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Partitions of a member's assignment; none if the bytes are no consumer's."""
    try:
        return tuple(sorted(decode_assignment(data)))
    except KafkaError:
        return ()

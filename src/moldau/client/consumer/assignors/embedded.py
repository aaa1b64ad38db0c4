"""What members of a classic group tell each other, in the bytes of the embedded protocol."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.consumer.assignors.base import MemberSubscription
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.wire import embedded_protocol
from moldau.wire.embedded_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
)
from moldau.wire.errors import DecodeError
from moldau.wire.make import make


def encode_subscription(
    member: MemberSubscription, version: int = embedded_protocol.NEWEST
) -> bytes:
    subscription = make(
        ConsumerProtocolSubscription,
        topics=tuple(sorted(member.topics)),
        user_data=member.user_data,
        owned_partitions=tuple(
            make(OwnedPartitions, topic=topic, partitions=partitions)
            for topic, partitions in by_topic(member.owned)
        ),
        generation_id=member.generation,
        rack_id=member.rack,
    )
    return embedded_protocol.encode_subscription(subscription, version)


def decode_subscription(data: bytes, instance_id: str | None = None) -> MemberSubscription:
    """What another client's member sent; KafkaError if these are no such bytes."""
    try:
        subscription = embedded_protocol.decode_subscription(data)
    except DecodeError as error:
        raise _malformed("subscription", error) from error
    return MemberSubscription(
        subscription.topics,
        owned=_flat(subscription.owned_partitions),
        generation=subscription.generation_id,
        rack=subscription.rack_id,
        instance_id=instance_id,
        user_data=subscription.user_data,
    )


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    assigned = tuple(
        make(AssignedPartitions, topic=topic, partitions=numbers)
        for topic, numbers in by_topic(partitions)
    )
    return embedded_protocol.encode_assignment(
        ConsumerProtocolAssignment(assigned_partitions=assigned)
    )


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """What the group's leader gave this member; KafkaError if these are no such bytes."""
    try:
        return _flat(embedded_protocol.decode_assignment(data).assigned_partitions)
    except DecodeError as error:
        raise _malformed("assignment", error) from error


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, tuple[int, ...]]]:
    """The partitions of each topic, as they came; topics in the order of their names."""
    numbers: dict[str, list[int]] = {}
    for topic, partition in partitions:
        numbers.setdefault(topic, []).append(partition)
    return [(topic, tuple(numbers[topic])) for topic in sorted(numbers)]


def _flat(
    topics: Iterable[AssignedPartitions | OwnedPartitions],
) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic, partition) for topic in topics for partition in topic.partitions
    )


def _malformed(what: str, error: DecodeError) -> KafkaError:
    return KafkaError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"A member's {what} cannot be read: {error}"
    )

"""Assignments of classic consumers by topic name, as tests put them together and look at them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from moldau.wire.embedded_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    OwnedPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from moldau.wire.make import make


def write_assignment(partitions: Mapping[str, Collection[int]], version: int) -> bytes:
    """An assignment without user data, for a member that speaks ``version``."""
    assigned = tuple(
        make(AssignedPartitions, topic=topic, partitions=tuple(sorted(partitions[topic])))
        for topic in sorted(partitions)
    )
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def read_assignment(data: bytes) -> dict[str, frozenset[int]]:
    """The partitions of an assignment by topic."""
    return _by_topic(decode_assignment(data).assigned_partitions)


def read_owned(metadata: bytes) -> dict[str, frozenset[int]]:
    """The partitions that a member owned when it sent this subscription."""
    return _by_topic(decode_subscription(metadata).owned_partitions)


def _by_topic(
    topics: Iterable[AssignedPartitions | OwnedPartitions],
) -> dict[str, frozenset[int]]:
    return {topic.topic: frozenset(topic.partitions) for topic in topics}

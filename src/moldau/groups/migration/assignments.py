"""Partitions by topic name, as classic members know them, and by topic id, as the log does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from moldau.groups.topics import TopicView
from moldau.wire.embedded_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    OwnedPartitions,
    encode_assignment,
)
from moldau.wire.make import make


def by_topic_id(
    partitions: Iterable[AssignedPartitions | OwnedPartitions], topics: TopicView
) -> dict[UUID, frozenset[int]]:
    """The partitions of those topics that exist."""
    held: dict[UUID, frozenset[int]] = {}
    for topic in partitions:
        topic_id = topics.topic_id(topic.topic)
        if topic.partitions and topic_id is not None:
            held[topic_id] = held.get(topic_id, frozenset()).union(topic.partitions)
    return held


def embedded_assignment(
    partitions: Mapping[UUID, Collection[int]], topics: TopicView, version: int
) -> bytes:
    """The same the other way round, for a member that speaks this version of the protocol."""
    named = {
        name: sorted(held)
        for topic_id, held in partitions.items()
        if (name := topics.name(topic_id)) is not None
    }
    assigned = tuple(
        make(AssignedPartitions, topic=name, partitions=tuple(named[name]))
        for name in sorted(named)
    )
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned), version)

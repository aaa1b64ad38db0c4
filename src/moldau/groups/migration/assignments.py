"""Partitions by topic name, as classic members know them, and by topic id, as the log does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from moldau.groups.consumer_protocol import NamedPartitions
from moldau.groups.topics import TopicView


def by_topic_id(partitions: NamedPartitions, topics: TopicView) -> dict[UUID, frozenset[int]]:
    """The partitions of those topics that exist."""
    return {
        topic_id: held
        for name, held in partitions.items()
        if held and (topic_id := topics.topic_id(name)) is not None
    }


def by_topic_name(
    partitions: Mapping[UUID, Collection[int]], topics: TopicView
) -> dict[str, Collection[int]]:
    """The same the other way round."""
    return {
        name: held
        for topic_id, held in partitions.items()
        if (name := topics.name(topic_id)) is not None
    }

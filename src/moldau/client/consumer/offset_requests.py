"""Committed offsets over the wire: what a member commits, and what its group has committed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import UUID

from moldau.client.cluster import Cluster
from moldau.client.consumer.membership.actions import Identity
from moldau.client.coordinators import Coordinator
from moldau.client.errors import UnknownTopicError
from moldau.client.group_offsets import committed_offset, topics_to_commit
from moldau.client.routing import by_topic
from moldau.errors import ErrorCode, KafkaError
from moldau.model import NO_TOPIC_ID, OffsetAndMetadata, TopicPartition
from moldau.request_errors import error_of
from moldau.wire.api import ApiKey
from moldau.wire.make import make
from moldau.wire.offset_shapes import (
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

NO_MEMBER = Identity("", -1)
"""Commits without membership: of consumers with assigned partitions."""

_NEWEST_BY_NAME: Final = 9
"""The newest version of OffsetCommit and OffsetFetch with names of topics."""


async def commit_offsets(
    cluster: Cluster,
    coordinator: Coordinator,
    identity: Identity,
    instance_id: str | None,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, KafkaError]:
    """One attempt: the partitions that were refused, and why."""
    ids = await _topic_ids(cluster, offsets)
    request = make(
        OffsetCommitRequest,
        group_id=coordinator.key,
        generation_id_or_member_epoch=identity.generation,
        member_id=identity.member_id,
        group_instance_id=None if identity is NO_MEMBER else instance_id,
        topics=topics_to_commit(offsets, ids),
    )
    by_name = any(partition.topic not in ids for partition in offsets)
    answer = await _ask(coordinator, ApiKey.OFFSET_COMMIT, request, by_name=by_name)
    names = {topic_id: name for name, topic_id in ids.items()}
    refused = {}
    for topic, p in _partitions(answer.topics):
        error = error_of(p.error_code)
        if error is not None:
            name = topic.name or names.get(topic.topic_id, "")
            refused[TopicPartition(name, p.partition_index)] = error
    for error in refused.values():
        if error.code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            coordinator.check(error.code)
    return refused


async def fetch_committed(
    cluster: Cluster,
    coordinator: Coordinator,
    identity: Identity,
    partitions: Collection[TopicPartition],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """One attempt: what is committed; partitions without a commit are missing.

    Offsets of transactions that are not decided yet are an error that goes away (KIP-447).
    """
    ids = await _topic_ids(cluster, partitions)
    group = make(
        OffsetFetchRequestGroup,
        group_id=coordinator.key,
        member_id=identity.member_id or None,
        member_epoch=identity.generation,
        topics=tuple(
            make(
                OffsetFetchRequestTopics,
                name=topic,
                topic_id=ids.get(topic, NO_TOPIC_ID),
                partition_indexes=tuple(numbers),
            )
            for topic, numbers in by_topic(dict.fromkeys(partitions, 0)).items()
        ),
    )
    request = make(OffsetFetchRequest, groups=(group,), require_stable=True)
    by_name = any(partition.topic not in ids for partition in partitions)
    answer = await _ask(coordinator, ApiKey.OFFSET_FETCH, request, by_name=by_name)
    (committed,) = answer.groups
    coordinator.check(committed.error_code)
    names = {topic_id: name for name, topic_id in ids.items()}
    offsets = {}
    for topic, p in _partitions(committed.topics):
        coordinator.check(p.error_code)
        if p.committed_offset >= 0:
            name = topic.name or names[topic.topic_id]
            offsets[TopicPartition(name, p.partition_index)] = committed_offset(p)
    return offsets


def _partitions(topics: Any) -> list[tuple[Any, Any]]:
    return [(topic, partition) for topic in topics for partition in topic.partitions]


async def _topic_ids(cluster: Cluster, partitions: Collection[TopicPartition]) -> dict[str, UUID]:
    """Of the topics that are known: from version 10 on, offsets go with topic ids."""
    ids = {}
    for topic in dict.fromkeys(partition.topic for partition in partitions):
        try:
            ids[topic] = (await cluster.topic(topic)).topic_id
        except UnknownTopicError:
            continue
    return ids


async def _ask(coordinator: Coordinator, api: ApiKey, request: Any, *, by_name: bool) -> Any:
    """By name, the coordinator says of each topic whether it knows it; by id, all must be known."""
    at_most = _NEWEST_BY_NAME if by_name else None
    return await coordinator.run(
        lambda connection: connection.request(api, request, at_most=at_most)
    )

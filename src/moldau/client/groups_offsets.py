"""The committed offsets of a group: fetch, commit on its behalf, delete.

From version 10 on the wire knows topics by id; this module gives both and translates back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

from moldau.client.admin_types import Outcome
from moldau.client.backoff import retrying
from moldau.client.cluster import Cluster
from moldau.client.coordinators import ask_coordinator
from moldau.client.errors import check, error_of
from moldau.client.groups_types import CommittedOffset
from moldau.model import TopicPartition
from moldau.wire.api import ApiKey
from moldau.wire.make import make
from moldau.wire.offset_shapes import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)


async def fetch(cluster: Cluster, group: str) -> dict[TopicPartition, CommittedOffset]:
    request = make(
        OffsetFetchRequest,
        groups=(make(OffsetFetchRequestGroup, group_id=group, topics=None),),
        require_stable=False,
    )
    names = await _names_by_id(cluster)
    answer = await ask_coordinator(
        cluster, group, ApiKey.OFFSET_FETCH, request, lambda a: [g.error_code for g in a.groups]
    )
    (found,) = answer.groups
    check(found.error_code)
    offsets = {}
    for topic in found.topics:
        name = topic.name or names.get(topic.topic_id)
        for p in topic.partitions:
            if name is not None and p.committed_offset >= 0:
                check(p.error_code)
                offsets[TopicPartition(name, p.partition_index)] = CommittedOffset(
                    p.committed_offset, p.committed_leader_epoch, p.metadata or ""
                )
    return dict(sorted(offsets.items()))


async def commit(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> list[Outcome[int]]:
    names = await _names_by_id(cluster)
    ids = {name: topic_id for topic_id, name in names.items()}
    topics = tuple(
        make(
            OffsetCommitRequestTopic,
            name=topic,
            topic_id=ids.get(topic),
            partitions=tuple(
                make(
                    OffsetCommitRequestPartition,
                    partition_index=partition,
                    committed_offset=offsets[TopicPartition(topic, partition)].offset,
                    committed_leader_epoch=offsets[TopicPartition(topic, partition)].leader_epoch,
                    committed_metadata=offsets[TopicPartition(topic, partition)].metadata,
                )
                for partition in partitions
            ),
        )
        for topic, partitions in _by_topic(offsets).items()
    )
    request = make(
        OffsetCommitRequest,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=topics,
    )
    answer = await ask_coordinator(cluster, group, ApiKey.OFFSET_COMMIT, request, _partition_codes)
    codes = {
        TopicPartition(topic.name or names.get(topic.topic_id, ""), p.partition_index): p.error_code
        for topic in answer.topics
        for p in topic.partitions
    }
    return [
        Outcome(str(partition), offset.offset, error_of(codes[partition]))
        for partition, offset in offsets.items()
    ]


async def delete(
    cluster: Cluster, group: str, partitions: Collection[TopicPartition]
) -> list[Outcome[TopicPartition]]:
    topics = tuple(
        make(
            OffsetDeleteRequestTopic,
            name=topic,
            partitions=tuple(
                make(OffsetDeleteRequestPartition, partition_index=partition)
                for partition in numbers
            ),
        )
        for topic, numbers in _by_topic(partitions).items()
    )
    request = make(OffsetDeleteRequest, group_id=group, topics=topics)
    answer = await ask_coordinator(
        cluster, group, ApiKey.OFFSET_DELETE, request, lambda a: [a.error_code]
    )
    check(answer.error_code)
    codes = {
        TopicPartition(topic.name, p.partition_index): p.error_code
        for topic in answer.topics
        for p in topic.partitions
    }
    return [
        Outcome(str(partition), partition, error_of(codes[partition])) for partition in partitions
    ]


def _partition_codes(answer: Any) -> list[int]:
    return [p.error_code for topic in answer.topics for p in topic.partitions]


def _by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        topics[topic].append(partition)
    return topics


async def _names_by_id(cluster: Cluster) -> dict[UUID, str]:
    metadata = await retrying(lambda: cluster.refresh(None), within=cluster.request_timeout)
    return {info.topic_id: name for name, info in metadata.topics.items()}

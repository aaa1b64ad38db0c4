"""The committed offsets of a group: fetch, commit on its behalf, delete.

From version 10 on the wire knows topics by id; this module gives both and translates back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

from moldau.client.admin.calls import Caller
from moldau.client.admin.types import Outcome
from moldau.client.group_offsets import committed_offset, topics_to_commit
from moldau.client.routing import by_topic
from moldau.model import OffsetAndMetadata, TopicPartition
from moldau.request_errors import check, error_of
from moldau.wire.api import ApiKey
from moldau.wire.make import make
from moldau.wire.offset_shapes import (
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)


async def fetch(caller: Caller, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    request = make(
        OffsetFetchRequest,
        groups=(make(OffsetFetchRequestGroup, group_id=group, topics=None),),
        require_stable=False,
    )
    names = await _names_by_id(caller)
    answer = await caller.coordinator(
        group, ApiKey.OFFSET_FETCH, request, lambda a: [g.error_code for g in a.groups]
    )
    (committed,) = answer.groups
    check(committed.error_code)
    offsets = {}
    for topic in committed.topics:
        name = topic.name or names.get(topic.topic_id)
        for p in topic.partitions:
            if name is not None and p.committed_offset >= 0:
                check(p.error_code)
                offsets[TopicPartition(name, p.partition_index)] = committed_offset(p)
    return dict(sorted(offsets.items()))


async def commit(
    caller: Caller, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> list[Outcome[int]]:
    names = await _names_by_id(caller)
    ids = {name: topic_id for topic_id, name in names.items()}
    request = make(
        OffsetCommitRequest,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=topics_to_commit(offsets, ids),
    )
    answer = await caller.coordinator(group, ApiKey.OFFSET_COMMIT, request, _partition_codes)
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
    caller: Caller, group: str, partitions: Collection[TopicPartition]
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
        for topic, numbers in by_topic(dict.fromkeys(partitions)).items()
    )
    request = make(OffsetDeleteRequest, group_id=group, topics=topics)
    answer = await caller.coordinator(
        group, ApiKey.OFFSET_DELETE, request, lambda a: [a.error_code]
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


async def _names_by_id(caller: Caller) -> dict[UUID, str]:
    await caller.refresh(None)
    return {info.topic_id: name for name, info in caller.cluster.metadata.topics.items()}

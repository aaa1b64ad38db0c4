"""OffsetFetch (key 9, versions 1-10): how far groups have read.

Behaviour: no topic list asks for everything a group has committed; a partition without a committed
offset is answered with -1. From version 8 on several groups may be asked for (KIP-709), from 9 on a
member says who it is and may be fenced (KIP-848), version 10 names topics by id.
Known deviations: transactions are not served yet, so no offset is ever unstable.
"""

from __future__ import annotations

from dataclasses import replace

from moldau.broker.context import NO_THROTTLE, RequestContext
from moldau.broker.coordinator.requests import Answer, gathered
from moldau.broker.metadata_cache import MetadataCache
from moldau.errors import ErrorCode
from moldau.wire.make import make
from moldau.wire.offset_shapes import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

FIRST_VERSION_WITH_GROUP_ERROR = 2
FIRST_VERSION_WITH_TOPIC_IDS = 10


def handle(context: RequestContext, request: OffsetFetchRequest) -> Answer:
    answers = [_fetch(context, group, request.require_stable) for group in request.groups]
    return gathered(
        answers,
        lambda groups: OffsetFetchResponse(throttle_time=NO_THROTTLE, groups=tuple(groups)),
    )


def _fetch(context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool) -> Answer:
    version = context.header.api_version
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    unknown: list[OffsetFetchResponseTopics] = []
    wanted = group
    if by_id and group.topics is not None:
        wanted, unknown = _named(context.broker.metadata, group)

    def error(code: ErrorCode) -> OffsetFetchResponseGroup:
        # Version 1 has no place for an error but the partitions.
        topics = group.topics if version < FIRST_VERSION_WITH_GROUP_ERROR else None
        return OffsetFetchResponseGroup(
            group_id=group.group_id,
            topics=tuple(_fail(topic, code) for topic in topics or ()),
            error_code=code,
        )

    answer = context.broker.groups.submit(
        group.group_id,
        lambda shard, token, now_ms: shard.offset_fetch(
            wanted, token, now_ms, require_stable=require_stable
        ),
        error,
    )

    def complete(found: list[OffsetFetchResponseGroup]) -> OffsetFetchResponseGroup:
        response = found[0]
        if response.error_code and not response.topics:
            return error(response.error_code)
        if by_id:
            topics = _with_ids(context.broker.metadata, response.topics)
            return replace(response, topics=(*topics, *unknown))
        return response

    return gathered([answer], complete)


def _named(
    metadata: MetadataCache, group: OffsetFetchRequestGroup
) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
    """The request with names for ids, and the answers for ids that nobody has."""
    known, unknown = [], []
    for topic in group.topics or ():
        found = metadata.topics_by_id.get(topic.topic_id) if topic.topic_id else None
        if found is None:
            unknown.append(_fail(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            known.append(replace(topic, name=found.name))
    return replace(group, topics=tuple(known)), unknown


def _with_ids(
    metadata: MetadataCache, topics: tuple[OffsetFetchResponseTopics, ...]
) -> list[OffsetFetchResponseTopics]:
    """The topics with their ids; one that is gone meanwhile has none and is left out."""
    return [
        replace(topic, topic_id=found.topic_id)
        for topic in topics
        if (found := metadata.topics.get(topic.name)) is not None
    ]


def _fail(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            make(
                OffsetFetchResponsePartitions,
                partition_index=index,
                committed_offset=-1,
                committed_leader_epoch=-1,
                metadata="",
                error_code=code,
            )
            for index in topic.partition_indexes
        ),
    )

"""OffsetFetch (key 9, versions 1-10): how far groups have read.

Behaviour: no topic list asks for everything a group has committed; a partition without a committed
offset is answered with -1. From version 8 on several groups may be asked for (KIP-709), from 9 on a
member says who it is and may be fenced (KIP-848), version 10 names topics by id. Who asks for
stable offsets (version 7) is told UNSTABLE_OFFSET_COMMIT where an open transaction has written one.
Known deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from moldau.broker.metadata_cache import MetadataCache
from moldau.broker.request import Request
from moldau.coordinators import Answer, gathered
from moldau.errors import ErrorCode, KafkaError
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


def handle(request: Request[OffsetFetchRequest]) -> Answer:
    return gathered([_fetch(request, group) for group in request.body.groups], _response)


def error_answer(request: Request[OffsetFetchRequest], error: KafkaError) -> OffsetFetchResponse:
    return _response(_failed(request, group, error) for group in request.body.groups)


def _fetch(request: Request[OffsetFetchRequest], group: OffsetFetchRequestGroup) -> Answer:
    metadata = request.broker.metadata
    by_id = request.version >= FIRST_VERSION_WITH_TOPIC_IDS
    unknown: list[OffsetFetchResponseTopics] = []
    wanted = group
    if by_id and group.topics is not None:
        wanted, unknown = _named(metadata, group)
    answer = request.broker.groups.submit(
        group.group_id,
        lambda shard, token, now_ms: shard.offset_fetch(
            wanted, token, now_ms, require_stable=request.body.require_stable
        ),
        partial(_failed, request, group),
    )

    def complete(answers: list[OffsetFetchResponseGroup]) -> OffsetFetchResponseGroup:
        response = answers[0]
        if response.error_code and not response.topics:
            return _failed(request, group, KafkaError(response.error_code))
        if by_id:
            return replace(response, topics=(*_with_ids(metadata, response.topics), *unknown))
        return response

    return gathered([answer], complete)


def _failed(
    request: Request[OffsetFetchRequest], group: OffsetFetchRequestGroup, error: KafkaError
) -> OffsetFetchResponseGroup:
    # Version 1 has no place for an error but the partitions.
    topics = group.topics if request.version < FIRST_VERSION_WITH_GROUP_ERROR else None
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=tuple(_fail(topic, error.code) for topic in topics or ()),
        error_code=error.code,
    )


def _response(groups: Iterable[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=tuple(groups))


def _named(
    metadata: MetadataCache, group: OffsetFetchRequestGroup
) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
    """Returns the request with names for ids, and the answers for ids that nobody has."""
    known, unknown = [], []
    for wanted in group.topics or ():
        topic = metadata.topics_by_id.get(wanted.topic_id) if wanted.topic_id else None
        if topic is None:
            unknown.append(_fail(wanted, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            known.append(replace(wanted, name=topic.name))
    return replace(group, topics=tuple(known)), unknown


def _with_ids(
    metadata: MetadataCache, topics: tuple[OffsetFetchResponseTopics, ...]
) -> list[OffsetFetchResponseTopics]:
    """Returns the topics with their ids; one that is gone meanwhile has none and is left out."""
    return [
        replace(topic, topic_id=known.topic_id)
        for topic in topics
        if (known := metadata.topics.get(topic.name)) is not None
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

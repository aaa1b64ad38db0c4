"""OffsetCommit (key 8, versions 2-10): remember how far a group has read.

Behaviour: each partition succeeds or fails alone; topics that do not exist are refused here, member
and generation are checked by the group. The answer comes when the offsets are stored on all in-sync
replicas. Version 10 names topics by id.
Known deviations: none.
"""

from __future__ import annotations

from dataclasses import replace

from moldau.broker.context import NO_THROTTLE, Broker, RequestContext
from moldau.broker.coordinator.requests import Answer, gathered
from moldau.errors import ErrorCode
from moldau.wire.make import make
from moldau.wire.offset_shapes import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def handle(context: RequestContext, request: OffsetCommitRequest) -> Answer:
    version = context.header.api_version
    accepted, refused = _split(context.broker, request)
    if not accepted:
        return OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=tuple(refused))
    known = replace(request, topics=tuple(accepted))

    def error(code: ErrorCode) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            throttle_time=NO_THROTTLE, topics=tuple(_fail(topic, code) for topic in accepted)
        )

    answer = context.broker.groups.submit(
        request.group_id,
        lambda shard, token, now_ms: shard.offset_commit(known, token, now_ms, version),
        error,
    )
    if not refused:
        return answer
    return gathered([answer], lambda parts: _join(parts[0], refused))


def _split(
    broker: Broker, request: OffsetCommitRequest
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    """The topics that exist, with name and id; and the answers for the others."""
    metadata = broker.metadata
    accepted, refused = [], []
    for topic in request.topics:
        if topic.topic_id is not None:
            found = metadata.topics_by_id.get(topic.topic_id)
            code = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            found = metadata.topics.get(topic.name)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if found is None:
            refused.append(_fail(topic, code))
        elif topic.topic_id is not None:
            accepted.append(replace(topic, name=found.name))
        else:
            accepted.append(topic)
    return accepted, refused


def _fail(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            make(
                OffsetCommitResponsePartition,
                partition_index=partition.partition_index,
                error_code=code,
            )
            for partition in topic.partitions
        ),
    )


def _join(
    response: OffsetCommitResponse, refused: list[OffsetCommitResponseTopic]
) -> OffsetCommitResponse:
    return replace(response, topics=(*response.topics, *refused))

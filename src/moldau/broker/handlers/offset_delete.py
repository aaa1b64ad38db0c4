"""OffsetDelete (key 47, version 0): forget committed offsets (KIP-496).

Behaviour: each partition succeeds or fails alone; one that does not exist is refused with
UNKNOWN_TOPIC_OR_PARTITION, a topic that the group still reads with GROUP_SUBSCRIBED_TO_TOPIC. A
group that does not exist, or whose members' topics nobody knows, is refused as a whole.
Known deviations: none.
"""

from __future__ import annotations

from dataclasses import replace

from kio.schema.offset_delete.v0.request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

from moldau.broker.context import NO_THROTTLE, Broker, RequestContext
from moldau.broker.coordinator.requests import Answer, gathered
from moldau.errors import ErrorCode
from moldau.wire.make import make


def handle(context: RequestContext, request: OffsetDeleteRequest) -> Answer:
    if not request.group_id:
        return _error(ErrorCode.INVALID_GROUP_ID)
    known = replace(request, topics=_topics(context.broker, request, exist=True))
    unknown = _topics(context.broker, request, exist=False)
    answer = context.broker.groups.submit(
        request.group_id,
        lambda shard, token, now_ms: shard.offset_delete(known, token, now_ms),
        _error,
    )
    return gathered([answer], lambda parts: _join(parts[0], unknown)) if unknown else answer


def _topics(
    broker: Broker, request: OffsetDeleteRequest, *, exist: bool
) -> tuple[OffsetDeleteRequestTopic, ...]:
    """Those of the partitions that exist, or those that do not."""
    topics = []
    for topic in request.topics:
        found = broker.metadata.topics.get(topic.name)
        indexes = () if found is None else found.partitions
        partitions = tuple(
            one for one in topic.partitions if (one.partition_index in indexes) is exist
        )
        if partitions:
            topics.append(replace(topic, partitions=partitions))
    return tuple(topics)


def _join(
    response: OffsetDeleteResponse, unknown: tuple[OffsetDeleteRequestTopic, ...]
) -> OffsetDeleteResponse:
    """One answer for each topic, the refused partitions first."""
    if response.error_code:
        return response
    answers: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in unknown:
        answers.setdefault(topic.name, []).extend(
            make(
                OffsetDeleteResponsePartition,
                partition_index=partition.partition_index,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for partition in topic.partitions
        )
    for done in response.topics:
        answers.setdefault(done.name, []).extend(done.partitions)
    return replace(
        response,
        topics=tuple(
            make(OffsetDeleteResponseTopic, name=name, partitions=tuple(partitions))
            for name, partitions in answers.items()
        ),
    )


def _error(code: ErrorCode) -> OffsetDeleteResponse:
    return make(OffsetDeleteResponse, error_code=code, throttle_time=NO_THROTTLE, topics=())

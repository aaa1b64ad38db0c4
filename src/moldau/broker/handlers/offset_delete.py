"""OffsetDelete (key 47, version 0): forget committed offsets (KIP-496).

Behaviour: each partition succeeds or fails alone; one that does not exist is refused with
UNKNOWN_TOPIC_OR_PARTITION, a topic that the group still reads with GROUP_SUBSCRIBED_TO_TOPIC. A
group that does not exist, or whose members' topics nobody knows, is refused as a whole.
Known deviations: none.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kio.schema.offset_delete.v0.request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

from moldau.broker.broker import Broker
from moldau.broker.request import Request
from moldau.coordinators import Answer, gathered
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


def handle(request: Request[OffsetDeleteRequest]) -> Answer:
    body, broker = request.body, request.broker
    if not body.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    known = replace(body, topics=_topics(broker, body, exist=True))
    unknown = _topics(broker, body, exist=False)
    answer = broker.groups.submit(
        body.group_id,
        lambda shard, token, now_ms: shard.offset_delete(known, token, now_ms),
        partial(error_answer, request),
    )
    return gathered([answer], lambda parts: _join(parts[0], unknown)) if unknown else answer


def error_answer(_request: Request[OffsetDeleteRequest], error: KafkaError) -> OffsetDeleteResponse:
    return make(OffsetDeleteResponse, error_code=error.code, topics=())


def _topics(
    broker: Broker, body: OffsetDeleteRequest, *, exist: bool
) -> tuple[OffsetDeleteRequestTopic, ...]:
    """Returns those of the partitions that exist, or those that do not."""
    topics = []
    for topic in body.topics:
        metadata = broker.metadata.topics.get(topic.name)
        indexes = () if metadata is None else metadata.partitions
        partitions = tuple(p for p in topic.partitions if (p.partition_index in indexes) is exist)
        if partitions:
            topics.append(replace(topic, partitions=partitions))
    return tuple(topics)


def _join(
    response: OffsetDeleteResponse, unknown: tuple[OffsetDeleteRequestTopic, ...]
) -> OffsetDeleteResponse:
    """Returns one answer for each topic, the refused partitions first."""
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

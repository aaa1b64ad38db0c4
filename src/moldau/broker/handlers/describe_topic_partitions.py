"""DescribeTopicPartitions (key 75, version 0): topics with many partitions, page by page (KIP-966).

Behaviour: topics come in the order of their names; an empty list means all. A page ends after
``response_partition_limit`` partitions (at most ``max.request.partition.size.limit``) and
``next_cursor`` says where the next one begins. A cursor that no page ended with (its topic is not
in the list, or its partition is negative) is refused with INVALID_REQUEST.
Known deviations: a partition without a leader has all who may lead it in its ISR, and no last known
ELR.
"""

from __future__ import annotations

from bisect import bisect_left

from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

from moldau.broker.acls import TOPIC_OPERATIONS
from moldau.broker.metadata_cache import MetadataCache, TopicMetadata
from moldau.broker.request import Request
from moldau.broker.turns import in_turns
from moldau.controller.topic_names import invalid_reason
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


async def handle(
    request: Request[DescribeTopicPartitionsRequest],
) -> DescribeTopicPartitionsResponse:
    broker, body = request.broker, request.body
    metadata = broker.metadata
    names = await broker.run_in_thread(_names, body, list(metadata.topics))
    first_partition = 0
    if body.cursor is not None:
        first_partition = body.cursor.partition_index
        cursor_topic = body.cursor.topic_name
        del names[: bisect_left(names, cursor_topic)]
        is_there = bool(names) and names[0] == cursor_topic
        if first_partition < 0 or (body.topics and not is_there):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not is_there:
            first_partition = 0
    limit = broker.config.max_request_partition_size_limit
    room = min(limit, body.response_partition_limit)
    room = max(room, 1)

    topics: list[DescribeTopicPartitionsResponseTopic] = []
    cursor: Cursor | None = None
    async for name in in_turns(names):
        if room == 0:
            cursor = make(Cursor, topic_name=name, partition_index=0)
            break
        topic = metadata.topics.get(name)
        if topic is None:
            valid = invalid_reason(name) is None
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            code = unknown if valid else ErrorCode.INVALID_TOPIC_EXCEPTION
            topics.append(_without_partitions(code, name))
            continue
        indexes = [index for index in sorted(topic.partitions) if index >= first_partition]
        first_partition = 0
        topics.append(await _describe(metadata, topic, indexes[:room]))
        if len(indexes) > room:
            cursor = make(Cursor, topic_name=name, partition_index=indexes[room])
            break
        room -= len(indexes)
    return _response(topics, cursor)


def _names(body: DescribeTopicPartitionsRequest, known: list[str]) -> list[str]:
    return sorted({topic.name for topic in body.topics} or known)


def error_answer(
    request: Request[DescribeTopicPartitionsRequest], error: KafkaError
) -> DescribeTopicPartitionsResponse:
    return _response(
        [_without_partitions(error.code, topic.name) for topic in request.body.topics], None
    )


def _response(
    topics: list[DescribeTopicPartitionsResponseTopic], cursor: Cursor | None
) -> DescribeTopicPartitionsResponse:
    return make(DescribeTopicPartitionsResponse, topics=tuple(topics), next_cursor=cursor)


def _without_partitions(code: ErrorCode, name: str) -> DescribeTopicPartitionsResponseTopic:
    return make(
        DescribeTopicPartitionsResponseTopic,
        error_code=code,
        name=name,
        topic_id=None,
        partitions=(),
    )


async def _describe(
    metadata: MetadataCache, topic: TopicMetadata, indexes: list[int]
) -> DescribeTopicPartitionsResponseTopic:
    live = metadata.brokers
    partitions = []
    async for index in in_turns(indexes):
        state = topic.partitions[index]
        has_leader = state.leader in live
        partitions.append(
            make(
                DescribeTopicPartitionsResponsePartition,
                error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=state.leader if has_leader else -1,
                leader_epoch=state.leader_epoch,
                replica_nodes=state.replicas,
                isr_nodes=state.isr,
                eligible_leader_replicas=state.eligible,
                last_known_elr=(),
                offline_replicas=state.offline_replicas(live),
            )
        )
    return make(
        DescribeTopicPartitionsResponseTopic,
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(partitions),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )

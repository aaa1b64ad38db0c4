"""OffsetCommit (key 8, versions 2-10): remember how far a group has read.

Behaviour: each partition succeeds or fails alone; topics and partitions that do not exist are
refused here, member and generation are checked by the group. The answer comes when the offsets are
stored on all in-sync replicas. Version 10 names topics by id; the id is stored whichever way the
topic was named. A retention time, which versions 2 to 4 may give, is kept.
Known deviations: none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from moldau.broker.broker import Broker
from moldau.broker.request import Request
from moldau.coordinators import Answer, gathered
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make
from moldau.wire.offset_shapes import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

Topics = list[OffsetCommitRequestTopic]
Refused = list[OffsetCommitResponseTopic]


def handle(request: Request[OffsetCommitRequest]) -> Answer:
    known, refused = _split(request.broker, request.body)
    accepted = [topic for topic in known if topic.partitions]
    if not accepted:
        return OffsetCommitResponse(topics=tuple(refused))
    wanted = replace(request.body, topics=tuple(accepted))
    answer = request.broker.groups.submit(
        request.body.group_id,
        lambda shard, token, now_ms: shard.offset_commit(wanted, token, now_ms, request.version),
        lambda error: _failed(accepted, error),
    )
    if not any(topic.partitions for topic in refused):
        return answer
    return gathered([answer], lambda parts: _join(parts[0], known, refused))


def error_answer(request: Request[OffsetCommitRequest], error: KafkaError) -> OffsetCommitResponse:
    return _failed(request.body.topics, error)


def _failed(topics: Iterable[OffsetCommitRequestTopic], error: KafkaError) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(_answer(topic, topic.partitions, error.code) for topic in topics)
    )


def _split(broker: Broker, body: OffsetCommitRequest) -> tuple[Topics, Refused]:
    """For each topic what exists of it, with name and id; and the answers for the rest."""
    known: Topics = []
    refused: Refused = []
    for topic in body.topics:
        if topic.topic_id is not None:
            metadata = broker.metadata.topics_by_id.get(topic.topic_id)
            code = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            metadata = broker.metadata.topics.get(topic.name)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if metadata is None:
            known.append(replace(topic, partitions=()))
            refused.append(_answer(topic, topic.partitions, code))
            continue
        name, topic_id, exist = metadata.name, metadata.topic_id, metadata.partitions
        there = tuple(p for p in topic.partitions if p.partition_index in exist)
        missing = [p for p in topic.partitions if p.partition_index not in exist]
        known.append(replace(topic, name=name, topic_id=topic_id, partitions=there))
        refused.append(_answer(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return known, refused


def _answer(
    topic: OffsetCommitRequestTopic,
    partitions: Iterable[OffsetCommitRequestPartition],
    code: ErrorCode,
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            make(
                OffsetCommitResponsePartition,
                partition_index=partition.partition_index,
                error_code=code,
            )
            for partition in partitions
        ),
    )


def _join(response: OffsetCommitResponse, known: Topics, refused: Refused) -> OffsetCommitResponse:
    """Returns the group's answers behind the refusals, topic by topic."""
    answers = iter(response.topics)
    return replace(
        response,
        topics=tuple(
            replace(
                missing,
                partitions=missing.partitions
                + (next(answers).partitions if topic.partitions else ()),
            )
            for topic, missing in zip(known, refused, strict=True)
        ),
    )

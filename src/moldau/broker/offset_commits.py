"""Offset commits of both kinds, plain and transactional: what of their topics exists, and answers.

Topics and partitions that do not exist are refused before the group is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from moldau.broker.broker import Broker
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

Topics: TypeAlias = list[OffsetCommitRequestTopic]
Refused: TypeAlias = list[OffsetCommitResponseTopic]
Commit: TypeAlias = Callable[[OffsetCommitRequest], Answer]


def commit_existing(broker: Broker, body: OffsetCommitRequest, commit: Commit) -> Answer:
    """Let ``commit`` have what exists, and answer for all."""
    known, refused = _split(broker, body)
    accepted = [topic for topic in known if topic.partitions]
    if not accepted:
        return OffsetCommitResponse(topics=tuple(refused))
    answer = commit(replace(body, topics=tuple(accepted)))
    if not any(topic.partitions for topic in refused):
        return answer
    return gathered([answer], lambda parts: _join(parts[0], known, refused))


def commit_failed(
    topics: Iterable[OffsetCommitRequestTopic], error: KafkaError
) -> OffsetCommitResponse:
    """The answer that says the same about every partition."""
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

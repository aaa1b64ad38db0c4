"""CreateTopics (key 19, versions 2-7): new topics, or a check whether they could be.

Behaviour: each topic succeeds or fails alone. The answer comes when the topics can be used. From
version 5 on it carries the number of partitions, the replication factor and every effective setting
(KIP-525), from 7 on the id.
Known deviations: Kafka counts the request's timeout until its controller begins; here it is over
when the answer is not there by then. Without one (0 or less) Kafka refuses at once.
"""

from __future__ import annotations

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)

from moldau.broker.broker import Broker
from moldau.broker.request import Request
from moldau.config.describing.topic import describe_new_topic
from moldau.controller import CreateTopicResult, NewTopic
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make

STRICT_QUOTA_SINCE = 6
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


async def handle(request: Request[CreateTopicsRequest]) -> CreateTopicsResponse:
    results = await request.controller.create_topics(
        [_new_topic(topic) for topic in request.body.topics],
        validate_only=request.body.validate_only,
        mutator=request.mutator(strict=request.version >= STRICT_QUOTA_SINCE),
    )
    request.throttle_ms = max([request.throttle_ms, *(each.throttle_ms for each in results)])
    return make(
        CreateTopicsResponse,
        topics=tuple(
            _failed(result.name, result.error, result.message)
            if result.error
            else _created(request.broker, result)
            for result in results
        ),
    )


def error_answer(request: Request[CreateTopicsRequest], error: KafkaError) -> CreateTopicsResponse:
    return make(
        CreateTopicsResponse,
        topics=tuple(
            _failed(topic.name, error.code, error.message) for topic in request.body.topics
        ),
    )


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(a.partition_index, a.broker_ids) for a in topic.assignments],
        configs={config.name: config.value for config in topic.configs},
    )


def _failed(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return make(
        CreatableTopicResult,
        name=name,
        topic_id=None,
        error_code=code,
        error_message=message,
        configs=(),
    )


def _created(broker: Broker, result: CreateTopicResult) -> CreatableTopicResult:
    return make(
        CreatableTopicResult,
        name=result.name,
        topic_id=result.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=tuple(
            make(
                CreatableTopicConfigs,
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe_new_topic(broker.config, result.configs)
        ),
    )

"""CreateTopics (key 19, versions 2-7): new topics, or a check whether they could be.

Behaviour: each topic succeeds or fails alone. The answer comes when the topics can be used. From
version 5 on it carries the number of partitions, the replication factor and every effective setting
(KIP-525), from 7 on the id.
Known deviations: none.
"""

from __future__ import annotations

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)

from moldau.broker.context import NO_THROTTLE, Broker, RequestContext
from moldau.config.describing.topic import describe_new_topic
from moldau.controller import CreateTopicResult, NewTopic
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


async def handle(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    topics = [_new_topic(topic) for topic in request.topics]
    try:
        results = await context.broker.controller.create_topics(
            topics, validate_only=request.validate_only
        )
    except KafkaError as error:
        results = [
            CreateTopicResult(name=topic.name, error=error.code, message=error.message)
            for topic in topics
        ]
    return make(
        CreateTopicsResponse,
        throttle_time=NO_THROTTLE,
        topics=tuple(_answer(context.broker, result) for result in results),
    )


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(a.partition_index, a.broker_ids) for a in topic.assignments],
        configs={config.name: config.value for config in topic.configs},
    )


def _answer(broker: Broker, result: CreateTopicResult) -> CreatableTopicResult:
    if result.error:
        return make(
            CreatableTopicResult,
            name=result.name,
            topic_id=None,
            error_code=result.error,
            error_message=result.message,
            configs=(),
        )
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

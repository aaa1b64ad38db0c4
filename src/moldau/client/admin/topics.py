"""Creating, growing and deleting topics: requests to the controller."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

from moldau.client import arguments
from moldau.client.admin.calls import Caller
from moldau.client.admin.types import CreatedTopic, NewTopic, Outcome
from moldau.client.metadata import TopicInfo
from moldau.model import NO_TOPIC_ID
from moldau.request_errors import error_of
from moldau.wire.api import ApiKey
from moldau.wire.make import make


async def list_topics(caller: Caller, internal: bool) -> list[TopicInfo]:
    await caller.refresh(None)
    topics = sorted(caller.cluster.metadata.topics.values(), key=lambda topic: topic.name)
    return [topic for topic in topics if internal or not topic.internal]


async def describe_topics(caller: Caller, names: Collection[str]) -> list[Outcome[TopicInfo]]:
    names = arguments.names(names, "describe_topics()")
    await caller.refresh(names)
    metadata = caller.cluster.metadata
    return [Outcome(name, metadata.topics.get(name), metadata.errors.get(name)) for name in names]


async def create_topics(
    caller: Caller, topics: Sequence[NewTopic], validate_only: bool
) -> list[Outcome[CreatedTopic]]:
    for topic in topics:
        if not isinstance(topic, NewTopic):
            raise TypeError(f"create_topics() takes NewTopics; {topic!r} is none")
    request = make(
        CreateTopicsRequest,
        topics=tuple(_creatable(topic) for topic in topics),
        timeout=caller.timeout_ms,
        validate_only=validate_only,
    )
    answer = await caller.controller(
        ApiKey.CREATE_TOPICS, request, lambda a: [topic.error_code for topic in a.topics]
    )
    results = {result.name: result for result in answer.topics}
    return [_created(topic.name, results[topic.name]) for topic in topics]


async def delete_topics(caller: Caller, names: Sequence[str]) -> list[Outcome[str]]:
    names = arguments.names(names, "delete_topics()")
    request = make(
        DeleteTopicsRequest,
        topics=tuple(make(DeleteTopicState, name=name, topic_id=None) for name in names),
        timeout=caller.timeout_ms,
    )
    answer = await caller.controller(
        ApiKey.DELETE_TOPICS, request, lambda a: [result.error_code for result in a.responses]
    )
    for name in names:
        caller.cluster.forget(name)
    results = {result.name: result for result in answer.responses}
    return [
        Outcome(name, name, error_of(results[name].error_code, results[name].error_message))
        for name in names
    ]


async def create_partitions(
    caller: Caller, counts: Mapping[str, int], validate_only: bool
) -> list[Outcome[int]]:
    request = make(
        CreatePartitionsRequest,
        topics=tuple(
            make(CreatePartitionsTopic, name=name, count=count, assignments=None)
            for name, count in counts.items()
        ),
        timeout=caller.timeout_ms,
        validate_only=validate_only,
    )
    answer = await caller.controller(
        ApiKey.CREATE_PARTITIONS, request, lambda a: [result.error_code for result in a.results]
    )
    for name in counts:
        caller.cluster.forget(name)
    results = {result.name: result for result in answer.results}
    return [
        Outcome(name, count, error_of(results[name].error_code, results[name].error_message))
        for name, count in counts.items()
    ]


def _creatable(topic: NewTopic) -> CreatableTopic:
    return make(
        CreatableTopic,
        name=topic.name,
        num_partitions=-1 if topic.assignments else topic.partitions,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=tuple(
            make(CreatableReplicaAssignment, partition_index=partition, broker_ids=tuple(brokers))
            for partition, brokers in topic.assignments.items()
        ),
        configs=tuple(
            make(CreatableTopicConfig, name=name, value=value)
            for name, value in topic.configs.items()
        ),
    )


def _created(name: str, result: Any) -> Outcome[CreatedTopic]:
    return Outcome(
        name,
        CreatedTopic(
            name,
            result.topic_id or NO_TOPIC_ID,
            result.num_partitions,
            result.replication_factor,
        ),
        error_of(result.error_code, result.error_message),
    )

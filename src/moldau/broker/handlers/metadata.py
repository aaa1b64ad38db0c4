"""Metadata (key 3, versions 0-13): brokers, topics, leaders.

Behaviour: no topic list (an empty one in version 0) means all topics; from version 10 on topics may
be named by id. A topic that does not exist is created when both the request and
``auto.create.topics.enable`` allow it, and the answer carries its leader at once. Encoded answers
are cached by the bytes of the request until the metadata changes (see ``broker/router.py``).
Known deviations: Kafka answers a topic under creation with an error and lets the client ask again.
"""

from __future__ import annotations

from collections.abc import Container
from contextlib import suppress
from uuid import UUID

from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from moldau.broker.acl_operations import TOPIC_OPERATIONS
from moldau.broker.context import NO_THROTTLE, NOT_REQUESTED, RequestContext
from moldau.broker.coordinator.offsets_topic import OFFSETS_TOPIC
from moldau.broker.metadata_cache import PartitionMetadata, TopicMetadata
from moldau.controller.topic_names import invalid_reason
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make


async def handle(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    broker = context.broker
    if wants_all_topics(request, context.header.api_version):
        topics = [_describe(context, request, t) for t in broker.metadata.topics.values()]
    else:
        await _create_missing(context, request)
        topics = [_look_up(context, request, wanted) for wanted in request.topics or ()]
    return make(
        MetadataResponse,
        throttle_time=NO_THROTTLE,
        brokers=tuple(
            make(
                MetadataResponseBroker,
                node_id=node.id,
                host=node.host,
                port=node.port,
                rack=node.rack,
            )
            for node in broker.metadata.nodes(context.listener)
        ),
        cluster_id=broker.cluster_id,
        controller_id=broker.metadata.controller_id,
        topics=tuple(topics),
        error_code=ErrorCode.NONE,
    )


def wants_all_topics(request: MetadataRequest, version: int) -> bool:
    """Version 0 has no way to ask for no topic: its empty list means all of them."""
    return request.topics is None or (version == 0 and not request.topics)


async def _create_missing(context: RequestContext, request: MetadataRequest) -> None:
    broker = context.broker
    if not request.allow_auto_topic_creation or not broker.config.auto_create_topics_enable:
        return
    missing = [
        topic.name
        for topic in request.topics or ()
        if topic.name and not topic.topic_id and topic.name not in broker.metadata.topics
    ]
    if OFFSETS_TOPIC in missing:
        # It has settings of its own. If it cannot be made, the answer says that it is not there.
        with suppress(KafkaError):
            await broker.groups.offsets_topic.create()
    names = [name for name in missing if name != OFFSETS_TOPIC and invalid_reason(name) is None]
    if names:
        await broker.controller.auto_create(names)


def _look_up(
    context: RequestContext, request: MetadataRequest, wanted: MetadataRequestTopic
) -> MetadataResponseTopic:
    metadata = context.broker.metadata
    if wanted.topic_id:
        topic = metadata.topics_by_id.get(wanted.topic_id)
        if topic is None:
            return _unknown(ErrorCode.UNKNOWN_TOPIC_ID, None, wanted.topic_id)
        return _describe(context, request, topic)
    name = wanted.name or ""
    topic = metadata.topics.get(name)
    if topic is not None:
        return _describe(context, request, topic)
    valid = invalid_reason(name) is None
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION
    return _unknown(code, name, None)


def _unknown(code: ErrorCode, name: str | None, topic_id: UUID | None) -> MetadataResponseTopic:
    return make(MetadataResponseTopic, error_code=code, name=name, topic_id=topic_id, partitions=())


def _describe(
    context: RequestContext, request: MetadataRequest, topic: TopicMetadata
) -> MetadataResponseTopic:
    wants_operations = request.include_topic_authorized_operations
    live = context.broker.metadata.brokers
    return make(
        MetadataResponseTopic,
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            _describe_partition(index, state, live)
            for index, state in sorted(topic.partitions.items())
        ),
        topic_authorized_operations=TOPIC_OPERATIONS if wants_operations else NOT_REQUESTED,
    )


def _describe_partition(
    index: int, state: PartitionMetadata, live: Container[int]
) -> MetadataResponsePartition:
    has_leader = state.leader in live
    return make(
        MetadataResponsePartition,
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=state.leader if has_leader else -1,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        offline_replicas=state.offline_replicas(live),
    )

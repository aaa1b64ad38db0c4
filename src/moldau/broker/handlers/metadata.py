"""Metadata (key 3, versions 0-13): brokers, topics, leaders.

Behaviour: no topic list (an empty one in version 0) means all topics; from version 12 on topics may
be named by id (10 and 11 have the field and refuse it). A topic that does not exist is created when
both the request and ``auto.create.topics.enable`` allow it, and the answer carries its leader at
once. Encoded answers are cached by the bytes of the request until the metadata changes (see
``broker/router.py``).
Known deviations: Kafka answers a topic under creation with an error and lets the client ask again.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from contextlib import suppress
from typing import Final
from uuid import UUID

from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from moldau.broker.acls import NOT_REQUESTED, TOPIC_OPERATIONS
from moldau.broker.broker import Broker
from moldau.broker.controller_port import SOON_S
from moldau.broker.metadata_cache import PartitionMetadata, TopicMetadata
from moldau.broker.request import Request
from moldau.broker.turns import in_turns
from moldau.controller import Mutator
from moldau.controller.topic_names import invalid_reason
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make

log = logging.getLogger(__name__)

_TOPICS_BY_ID: Final = 12


async def handle(request: Request[MetadataRequest]) -> MetadataResponse:
    broker, body = request.broker, request.body
    if request.version < _TOPICS_BY_ID:
        _refuse_topics_by_id(body)
    if wants_all_topics(body, request.version):
        request.is_cacheable = True
        known = list(broker.metadata.topics.values())
        topics = [await _describe(request, topic) async for topic in in_turns(known)]
    else:
        # A topic that is missing may have to be created: each request tries that anew.
        missing = _missing(broker, body)
        request.is_cacheable = not missing
        await _create(broker, body, missing, request.mutator(strict=True))
        named = body.topics or ()
        topics = [await _look_up(request, topic) async for topic in in_turns(named)]
    return make(
        MetadataResponse,
        brokers=tuple(
            make(
                MetadataResponseBroker,
                node_id=node.id,
                host=node.host,
                port=node.port,
                rack=node.rack,
            )
            for node in broker.metadata.nodes(request.connection.listener)
        ),
        cluster_id=broker.cluster_id,
        controller_id=broker.metadata.controller_id,
        topics=tuple(topics),
        error_code=ErrorCode.NONE,
    )


def error_answer(request: Request[MetadataRequest], error: KafkaError) -> MetadataResponse:
    return make(
        MetadataResponse,
        brokers=(),
        topics=tuple(
            _unknown(error.code, topic.name or "", topic.topic_id)
            for topic in request.body.topics or ()
        ),
        error_code=error.code,
    )


def wants_all_topics(body: MetadataRequest, version: int) -> bool:
    """Version 0 has no way to ask for no topic: its empty list means all of them."""
    return body.topics is None or (version == 0 and not body.topics)


def _refuse_topics_by_id(body: MetadataRequest) -> None:
    """The answers of these versions have no way to leave the name of a topic out."""
    for topic in body.topics or ():
        if topic.name is None or topic.topic_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "this version names topics, not their ids")


def _missing(broker: Broker, body: MetadataRequest) -> list[str]:
    """Returns the topics, named and not given by id, that do not exist."""
    known = broker.metadata.topics
    return [
        topic.name or ""
        for topic in body.topics or ()
        if not topic.topic_id and topic.name not in known
    ]


async def _create(
    broker: Broker, body: MetadataRequest, names: list[str], mutator: Mutator
) -> None:
    """Create topics if that is allowed. What cannot be made is answered as what it is: unknown."""
    if not body.allow_auto_topic_creation or not broker.config.auto_create_topics_enable:
        return
    ordinary: list[str] = []
    for name in names:
        internal_topic = broker.coordinators.topic(name)
        if internal_topic is not None:
            with suppress(KafkaError):
                await internal_topic.create()  # it has settings of its own
        elif invalid_reason(name) is None:
            ordinary.append(name)
    if ordinary:
        try:
            await broker.controller.within(SOON_S).auto_create(ordinary, mutator=mutator)
        except KafkaError as error:
            log.warning("cannot create topics that were asked for: %s", error)


async def _look_up(
    request: Request[MetadataRequest], wanted: MetadataRequestTopic
) -> MetadataResponseTopic:
    metadata = request.broker.metadata
    if wanted.topic_id:
        topic = metadata.topics_by_id.get(wanted.topic_id)
        if topic is None:
            return _unknown(ErrorCode.UNKNOWN_TOPIC_ID, None, wanted.topic_id)
        return await _describe(request, topic)
    name = wanted.name or ""
    topic = metadata.topics.get(name)
    if topic is not None:
        return await _describe(request, topic)
    valid = invalid_reason(name) is None
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION
    return _unknown(code, name, None)


def _unknown(code: ErrorCode, name: str | None, topic_id: UUID | None) -> MetadataResponseTopic:
    return make(MetadataResponseTopic, error_code=code, name=name, topic_id=topic_id, partitions=())


async def _describe(
    request: Request[MetadataRequest], topic: TopicMetadata
) -> MetadataResponseTopic:
    wants_operations = request.body.include_topic_authorized_operations
    live = request.broker.metadata.brokers
    describe = _describe_live_part if request.version == 0 else _describe_partition
    partitions = [
        describe(index, state, live)
        async for index, state in in_turns(sorted(topic.partitions.items()))
    ]
    return make(
        MetadataResponseTopic,
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(partitions),
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


def _describe_live_part(
    index: int, state: PartitionMetadata, live: Container[int]
) -> MetadataResponsePartition:
    """As clients of version 0 want it, who look for every replica among the brokers: those that
    are not there are left out, and missed by an error.
    """
    replicas = tuple(replica for replica in state.replicas if replica in live)
    error = ErrorCode.LEADER_NOT_AVAILABLE
    if state.leader in live:
        is_whole = len(replicas) == len(state.replicas)
        error = ErrorCode.NONE if is_whole else ErrorCode.REPLICA_NOT_AVAILABLE
    return make(
        MetadataResponsePartition,
        error_code=error,
        partition_index=index,
        leader_id=state.leader if state.leader in live else -1,
        replica_nodes=replicas,
        isr_nodes=tuple(replica for replica in state.isr if replica in live),
        offline_replicas=(),
    )

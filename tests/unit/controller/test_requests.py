"""What goes to the controller and back could go over a wire: every field survives it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
import pytest

from moldau.config.altering.operations import Alteration, AlterOperation
from moldau.config.types import ResourceType
from moldau.controller import (
    AlterPartition,
    AlterPartitionResult,
    ClientQuotaAlteration,
    ClientQuotaResult,
    ConfigAlteration,
    ConfigResult,
    CreateTopicResult,
    DeleteTopicResult,
    Mutator,
    NewPartitions,
    NewReplicas,
    NewTopic,
    OngoingReassignment,
    PartitionResult,
    ProducerIdBlock,
    TopicReference,
    TopicResult,
)
from moldau.coordination.znodes import Endpoint
from moldau.errors import ErrorCode
from moldau.quotas.entity import ClientQuotaEntity

ID = UUID(int=5)
FAILED: dict[str, Any] = {"error": ErrorCode.POLICY_VIOLATION, "message": "no"}
EXAMPLES = [
    NewTopic(
        name="t",
        num_partitions=3,
        replication_factor=2,
        assignments=[(0, [1, 2])],
        configs={"retention.ms": "5", "segment.bytes": None},
    ),
    CreateTopicResult(
        name="t",
        topic_id=ID,
        num_partitions=3,
        replication_factor=1,
        throttle_ms=5,
        configs={"a": "b"},
        **FAILED,
    ),
    TopicReference("t"),
    TopicReference(topic_id=ID),
    DeleteTopicResult(name=None, topic_id=ID, **FAILED),
    NewPartitions(topic="t", count=4, assignments=[[1], [2]]),
    NewPartitions(topic="t", count=4),
    TopicResult(name="t", **FAILED),
    ConfigAlteration(
        resource_type=int(ResourceType.GROUP),
        resource_name="g",
        changes=[
            Alteration("a", AlterOperation.APPEND, "b"),
            Alteration("c", AlterOperation.DELETE, None),
        ],
        replaces_all=True,
    ),
    ConfigAlteration(
        resource_type=int(ResourceType.BROKER),
        resource_name="1",
        changes=[Alteration("listeners", AlterOperation.SET, "A://a:1")],
        endpoints=(Endpoint("A", "a", 1),),
    ),
    ConfigResult(**FAILED),
    ClientQuotaAlteration(
        entity=ClientQuotaEntity.of({"user": "u", "client-id": None}),
        changes=[("producer_byte_rate", 5.5), ("consumer_byte_rate", None)],
    ),
    ClientQuotaResult(entity=ClientQuotaEntity.of({"ip": "::1"}), **FAILED),
    Mutator(user="u", client_id="c", strict=False),
    AlterPartition(
        topic="t",
        topic_id=UUID(int=5),
        partition=1,
        leader_epoch=2,
        partition_epoch=3,
        new_isr=(1, 2),
    ),
    AlterPartitionResult(topic="t", partition=1, error=ErrorCode.FENCED_LEADER_EPOCH, isr=(1,)),
    ProducerIdBlock(1000, 1000),
    NewReplicas(topic="t", partition=1, replicas=[1, 2]),
    NewReplicas(topic="t", partition=1, replicas=None),
    OngoingReassignment(topic="t", partition=1, replicas=(1, 2), adding=(2,), removing=(1,)),
    PartitionResult(topic="t", partition=1, **FAILED),
]


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_survives_the_wire(message: Any) -> None:
    kind = type(message)
    received = msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=kind)
    assert msgspec.to_builtins(received) == msgspec.to_builtins(message)
    for name in kind.__struct_fields__:
        assert type(getattr(received, name)) in (type(getattr(message, name)), list), name

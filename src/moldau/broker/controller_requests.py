"""What is asked of the controller, as messages: one for each method of ``ControllerClient``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from moldau.broker.controller_port import ControllerClient
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
from moldau.model import ElectionType, TopicPartition


class _Message(msgspec.Struct, frozen=True, tag=True):
    """``put_to`` asks a controller for what the message says."""


class CreateTopics(_Message, frozen=True):
    topics: Sequence[NewTopic]
    validate_only: bool
    mutator: Mutator | None

    async def put_to(self, controller: ControllerClient) -> list[CreateTopicResult]:
        return await controller.create_topics(
            self.topics, validate_only=self.validate_only, mutator=self.mutator
        )


class AutoCreate(_Message, frozen=True):
    names: Sequence[str]
    mutator: Mutator | None

    async def put_to(self, controller: ControllerClient) -> list[CreateTopicResult]:
        return await controller.auto_create(self.names, mutator=self.mutator)


class CreatePartitions(_Message, frozen=True):
    topics: Sequence[NewPartitions]
    validate_only: bool
    mutator: Mutator | None

    async def put_to(self, controller: ControllerClient) -> list[TopicResult]:
        return await controller.create_partitions(
            self.topics, validate_only=self.validate_only, mutator=self.mutator
        )


class DeleteTopics(_Message, frozen=True):
    topics: Sequence[TopicReference]
    mutator: Mutator | None

    async def put_to(self, controller: ControllerClient) -> list[DeleteTopicResult]:
        return await controller.delete_topics(self.topics, mutator=self.mutator)


class AlterConfigs(_Message, frozen=True):
    alterations: Sequence[ConfigAlteration]
    validate_only: bool

    async def put_to(self, controller: ControllerClient) -> list[ConfigResult]:
        return await controller.alter_configs(self.alterations, validate_only=self.validate_only)


class ElectLeaders(_Message, frozen=True):
    kind: ElectionType
    partitions: Sequence[TopicPartition] | None

    async def put_to(self, controller: ControllerClient) -> list[PartitionResult]:
        return await controller.elect_leaders(self.kind, self.partitions)


class AlterReassignments(_Message, frozen=True):
    targets: Sequence[NewReplicas]
    allow_replication_factor_change: bool

    async def put_to(self, controller: ControllerClient) -> list[PartitionResult]:
        return await controller.alter_reassignments(
            self.targets, allow_replication_factor_change=self.allow_replication_factor_change
        )


class ListReassignments(_Message, frozen=True):
    partitions: Sequence[TopicPartition] | None

    async def put_to(self, controller: ControllerClient) -> list[OngoingReassignment]:
        return await controller.ongoing_reassignments(self.partitions)


class AlterClientQuotas(_Message, frozen=True):
    alterations: Sequence[ClientQuotaAlteration]
    validate_only: bool

    async def put_to(self, controller: ControllerClient) -> list[ClientQuotaResult]:
        return await controller.alter_client_quotas(
            self.alterations, validate_only=self.validate_only
        )


class AllocateProducerIds(_Message, frozen=True):
    broker: int

    async def put_to(self, controller: ControllerClient) -> ProducerIdBlock:
        return await controller.next_producer_id_block(self.broker)


class ReportOfflineReplicas(_Message, frozen=True):
    broker: int
    broker_epoch: int
    partitions: Sequence[tuple[str, int]]

    async def put_to(self, controller: ControllerClient) -> None:
        await controller.offline_replicas(self.broker, self.broker_epoch, self.partitions)


class ControlledShutdown(_Message, frozen=True):
    broker: int
    broker_epoch: int

    async def put_to(self, controller: ControllerClient) -> list[TopicPartition]:
        return await controller.controlled_shutdown(self.broker, self.broker_epoch)


class AlterPartitions(_Message, frozen=True):
    broker: int
    broker_epoch: int
    requests: Sequence[AlterPartition]

    async def put_to(self, controller: ControllerClient) -> list[AlterPartitionResult]:
        return await controller.alter_partitions(self.broker, self.broker_epoch, self.requests)


ControllerRequest: TypeAlias = (
    CreateTopics
    | AutoCreate
    | CreatePartitions
    | DeleteTopics
    | AlterConfigs
    | ElectLeaders
    | AlterReassignments
    | ListReassignments
    | AlterClientQuotas
    | AllocateProducerIds
    | ReportOfflineReplicas
    | ControlledShutdown
    | AlterPartitions
)

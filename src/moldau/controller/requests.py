"""What can be asked of the controller, and what it answers: plain data, as it would go over a wire.

``tests/unit/controller/test_requests.py`` sends every one of them through an encoder and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self
from uuid import UUID

import msgspec

from moldau.config.altering.operations import Alteration, apply_incremental, apply_replacement
from moldau.config.option import AnyOption
from moldau.coordination.znodes import Endpoint
from moldau.errors import ErrorCode, KafkaError
from moldau.model import NO_TOPIC_ID, TopicPartition
from moldau.quotas.entity import ClientQuotaEntity

DEFAULT = -1
"""As number of partitions or replication factor: use the broker's setting."""


class NewTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic to create: either counts, or an assignment of every partition to brokers.

    ``assignments`` are pairs as they came, so that a partition named twice can be refused.
    """

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = {}


class CreateTopicResult(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: UUID = NO_TOPIC_ID
    num_partitions: int = -1
    replication_factor: int = -1
    throttle_ms: int = 0
    """For how long the client has to hold back, whatever became of the topic."""
    configs: Mapping[str, str] = {}
    """The overrides the topic was given; the caller knows the defaults around them."""


class TopicReference(msgspec.Struct, frozen=True):
    """A topic by its name, or else by its id."""

    name: str | None = None
    topic_id: UUID = NO_TOPIC_ID


class DeleteTopicResult(msgspec.Struct, frozen=True, kw_only=True):
    """``name`` is None if only an unknown id was given."""

    name: str | None
    topic_id: UUID = NO_TOPIC_ID
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    throttle_ms: int = 0


class NewPartitions(msgspec.Struct, frozen=True, kw_only=True):
    """``assignments`` is None to let the controller choose."""

    topic: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicResult(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    throttle_ms: int = 0


class ConfigAlteration(msgspec.Struct, frozen=True, kw_only=True):
    """Other settings for a topic, a group, or a broker (its id; empty: every broker)."""

    resource_type: int
    resource_name: str
    changes: Sequence[Alteration]
    replaces_all: bool = False
    """What is not named goes back to its default; operations do not count."""
    endpoints: tuple[Endpoint, ...] | None = None
    """Where the broker can be reached with these settings, where that changes with them."""

    def apply(self, options: Mapping[str, AnyOption], stored: Mapping[str, str]) -> dict[str, str]:
        """Returns the settings to store instead of ``stored``; raises KafkaError."""
        if self.replaces_all:
            return apply_replacement([(change.name, change.value) for change in self.changes])
        return apply_incremental(options, stored, self.changes)


class ConfigResult(msgspec.Struct, frozen=True, kw_only=True):
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class ClientQuotaAlteration(msgspec.Struct, frozen=True, kw_only=True):
    """Other quotas for an entity; a value of None removes one. Keys are pairs as they came, so that
    one named twice can be refused.
    """

    entity: ClientQuotaEntity
    changes: Sequence[tuple[str, float | None]]


class ClientQuotaResult(msgspec.Struct, frozen=True, kw_only=True):
    entity: ClientQuotaEntity
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class Mutator(msgspec.Struct, frozen=True, kw_only=True):
    """Whose ``controller_mutation_rate`` pays for partitions that are created or deleted."""

    user: str
    client_id: str
    strict: bool = True
    """Refuse what goes over the quota with THROTTLING_QUOTA_EXCEEDED (KIP-599). Clients that do not
    know that error get what they want, and have to hold back longer.
    """


class AlterPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A leader's wish to change its in-sync replicas (KIP-497)."""

    topic: str
    topic_id: UUID
    """The topic that is meant: there may be another of that name by now."""
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[int, ...]
    new_isr_epochs: tuple[int, ...] = ()
    """The broker epochs that the leader knows of ``new_isr``, in the same order (KIP-903); -1 for
    one that it does not know, which can stay in sync but not join. None at all: it knows none.
    """
    leader_recovery_state: int = 0


class AlterPartitionResult(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1
    leader_recovery_state: int = 0


class NewReplicas(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition's replicas should be; None for where they were before their present
    move.
    """

    topic: str
    partition: int
    replicas: Sequence[int] | None


class OngoingReassignment(msgspec.Struct, frozen=True, kw_only=True):
    """A partition on the move: all its replicas, those to come and those to go."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class PartitionResult(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @classmethod
    def of(cls, partition: TopicPartition, error: KafkaError | None) -> Self:
        """Returns what became of a partition: it failed with this error, or did not."""
        topic, number = partition
        if error is None:
            return cls(topic=topic, partition=number)
        return cls(topic=topic, partition=number, error=error.code, message=error.message)


class ProducerIdBlock(msgspec.Struct, frozen=True):
    """Producer ids that are one broker's alone: first, first+1, … first+count-1."""

    first: int
    count: int

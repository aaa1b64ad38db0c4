"""What can be asked of the controller, and what it answers: plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.model import NO_TOPIC_ID

DEFAULT = -1
"""As number of partitions or replication factor: use the broker's setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create: either counts, or an assignment of every partition to brokers.

    ``assignments`` are pairs as they came, so that a partition named twice can be refused.
    """

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicResult:
    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: UUID = NO_TOPIC_ID
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    """The overrides the topic was given; the caller knows the defaults around them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicResult:
    """``name`` is None if only an unknown id was given."""

    name: str | None
    topic_id: UUID = NO_TOPIC_ID
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """``assignments`` is None to let the controller choose."""

    topic: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult:
    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartition:
    """A leader's wish to change its in-sync replicas (KIP-497)."""

    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[int, ...]
    leader_recovery_state: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResult:
    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1
    leader_recovery_state: int = 0


@dataclass(frozen=True, slots=True)
class ProducerIds:
    """A block of producer ids that is this broker's alone: first, first+1, … first+count-1."""

    first: int
    count: int

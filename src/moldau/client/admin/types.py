"""What administration is asked with and answers: plain values, free of protocol versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from moldau.config.altering.operations import AlterOperation
from moldau.config.types import ResourceType
from moldau.errors import KafkaError
from moldau.model import Node, TopicPartition

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What became of one item of a request: a value or an error."""

    name: str
    value: T | None = None
    error: KafkaError | None = None

    def __post_init__(self) -> None:
        if self.error is not None:
            object.__setattr__(self, "value", None)

    def get(self) -> T:
        if self.error is not None:
            raise self.error
        assert self.value is not None
        return self.value


def raise_first_error(outcomes: Iterable[Outcome[T]]) -> None:
    """For callers to whom one failed item means that the whole failed."""
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 leaves the number to the cluster's defaults."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Brokers by partition; given instead of the two numbers."""


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int


class ConfigResource(NamedTuple):
    type: ResourceType
    name: str
    """A topic or group name or a broker id; the empty one is the default of all brokers."""


class ConfigChange(NamedTuple):
    name: str
    value: str | None
    operation: AlterOperation = AlterOperation.SET


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]
    fenced: frozenset[int] = frozenset()
    """Brokers that are registered but do not serve (KIP-1073); only if asked for."""


@dataclass(frozen=True, slots=True)
class LogDir:
    node_id: int
    path: str
    error: KafkaError | None
    sizes: Mapping[TopicPartition, int]
    total_bytes: int
    usable_bytes: int
    future: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Replicas that are moving into this directory, with their sizes so far."""
    cordoned: bool = False
    """It gets no new partitions (``cordoned.log.dirs``)."""


class Replica(NamedTuple):
    """A partition's replica on one broker."""

    topic: str
    partition: int
    node_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.node_id}"


class Reassignment(NamedTuple):
    """A partition on the move: all its replicas, those to come and those to go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ProducerState(NamedTuple):
    """What a partition's leader remembers about an idempotent producer."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class TransactionListing(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]


class FeatureLevels(NamedTuple):
    """The levels of a feature: what brokers can do, and what the cluster has settled on."""

    oldest: int
    newest: int
    finalized: int | None


class FeatureUpgrade(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class QuorumReplica(NamedTuple):
    node_id: int
    log_end_offset: int
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The controllers of a KRaft cluster."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class ScramCredential(NamedTuple):
    """What the cluster tells about the password of a user."""

    mechanism: str
    """``SCRAM-SHA-256`` or ``SCRAM-SHA-512``."""
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """Gives a user a password, new or another."""

    user: str
    mechanism: str
    password: str = field(repr=False)
    iterations: int = 4096
    salt: bytes | None = field(default=None, repr=False)
    """Random by default."""


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """Takes the password of a mechanism away from a user."""

    user: str
    mechanism: str

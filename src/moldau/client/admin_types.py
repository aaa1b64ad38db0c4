"""What administration is asked with and answers: plain values, free of protocol versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from moldau.errors import KafkaError
from moldau.model import Node, TopicPartition

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What became of one item of a request: a value or an error."""

    name: str
    value: T | None = None
    error: KafkaError | None = None

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


class ResourceType(IntEnum):
    """Kinds of things that have settings."""

    TOPIC = 2
    BROKER = 4


class ConfigResource(NamedTuple):
    type: ResourceType
    name: str
    """A topic name or a broker id; the empty broker name is the default of all brokers."""


class ConfigSource(IntEnum):
    """Where a setting's value comes from."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    CLUSTER_DEFAULT = 3
    SERVER_PROPERTIES = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigType(IntEnum):
    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    read_only: bool
    sensitive: bool
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...] = ()
    documentation: str | None = None


class AlterOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    name: str
    value: str | None
    operation: AlterOperation = AlterOperation.SET


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]


class OffsetSpec(IntEnum):
    """Special timestamps of ListOffsets."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


class OffsetAndTimestamp(NamedTuple):
    offset: int
    """-1 when no record is that young."""
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class LogDir:
    node_id: int
    path: str
    error: KafkaError | None
    sizes: Mapping[TopicPartition, int]
    total_bytes: int
    usable_bytes: int

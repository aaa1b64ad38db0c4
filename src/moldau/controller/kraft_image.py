"""The state of a KRaft cluster, as its metadata log describes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from moldau.quotas.entity import ClientQuotaEntity


@dataclass(slots=True)
class KraftPartition:
    replicas: tuple[int, ...]
    leader_epoch: int


@dataclass(slots=True)
class KraftTopic:
    name: str
    topic_id: UUID
    partitions: dict[int, KraftPartition] = field(default_factory=dict)


@dataclass(slots=True)
class MetadataImage:
    """The state that a metadata log describes."""

    topics: dict[UUID, KraftTopic] = field(default_factory=dict)
    topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    """By broker id; the empty id stands for all brokers."""
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    client_metrics_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    client_quotas: dict[ClientQuotaEntity, dict[str, float]] = field(default_factory=dict)
    next_producer_id: int = 0

    def topic_named(self, name: str) -> KraftTopic | None:
        return next((topic for topic in self.topics.values() if topic.name == name), None)

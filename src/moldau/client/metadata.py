"""What the cluster looks like: brokers, topics, leaders, as immutable snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from moldau.errors import ErrorCode, KafkaError
from moldau.model import NO_TOPIC_ID, Node, TopicPartition
from moldau.request_errors import error_of

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]

    @property
    def under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    name: str
    topic_id: UUID
    internal: bool
    partitions: Mapping[int, PartitionInfo]
    with_leader: tuple[int, ...]
    """The partitions that can be written to now."""

    @property
    def replication_factor(self) -> int:
        return max((len(info.replicas) for info in self.partitions.values()), default=0)

    def with_partitions(self, partitions: Mapping[int, PartitionInfo]) -> TopicInfo:
        return replace(self, partitions=partitions, with_leader=_led(partitions))

    def not_older_than(self, known: TopicInfo | None) -> TopicInfo:
        """This, but for leaders that the broker which answered has not heard of yet."""
        if known is None or known.topic_id != self.topic_id:
            return self
        newer = {
            number: before
            for number, before in known.partitions.items()
            if number in self.partitions
            and before.leader_epoch > self.partitions[number].leader_epoch >= 0
        }
        return self.with_partitions({**self.partitions, **newer}) if newer else self


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The cluster as one broker described it, plus what earlier answers said about other topics."""

    cluster_id: str | None = None
    controller_id: int = -1
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    errors: Mapping[str, KafkaError] = field(default_factory=dict)
    """Topics that were asked for and could not be described."""

    def updated(self, answer: ClusterMetadata, asked: Iterable[str] | None) -> ClusterMetadata:
        """This snapshot brought up to date; ``asked`` is None when all topics were asked for."""
        current = {
            name: info.not_older_than(self.topics.get(name)) for name, info in answer.topics.items()
        }
        if asked is None:
            return replace(answer, topics=current)
        forgotten = set(asked)
        kept = {name: info for name, info in self.topics.items() if name not in forgotten}
        failed = {name: error for name, error in self.errors.items() if name not in forgotten}
        return replace(answer, topics={**kept, **current}, errors={**failed, **answer.errors})

    def with_leader(
        self, partition: TopicPartition, leader: int, leader_epoch: int, nodes: Iterable[Node]
    ) -> ClusterMetadata:
        """What a broker says about a leader that moved, if it is news (KIP-951)."""
        topic = self.topics.get(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        if topic is None or known is None or known.leader_epoch >= leader_epoch:
            return self
        moved = replace(known, leader=leader, leader_epoch=leader_epoch)
        changed = topic.with_partitions({**topic.partitions, partition.partition: moved})
        return replace(
            self,
            nodes={**self.nodes, **{node.id: node for node in nodes}},
            topics={**self.topics, topic.name: changed},
        )


def read_metadata(response: MetadataResponse) -> ClusterMetadata:
    """A snapshot from an answer in its newest shape."""
    topics: dict[str, TopicInfo] = {}
    errors: dict[str, KafkaError] = {}
    for topic in response.topics:
        name = topic.name or ""
        error = error_of(topic.error_code)
        if error is None:
            topics[name] = _read_topic(topic)
        else:
            errors[name] = type(error)(error.code, f"Topic {name!r}: {error.message}")
    return ClusterMetadata(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        nodes={
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        },
        topics=topics,
        errors=errors,
    )


def _read_topic(topic: MetadataResponseTopic) -> TopicInfo:
    listed = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    partitions = {int(p.partition_index): _read_partition(p) for p in listed}
    return TopicInfo(
        name=topic.name or "",
        topic_id=topic.topic_id or NO_TOPIC_ID,
        internal=topic.is_internal,
        partitions=partitions,
        with_leader=_led(partitions),
    )


def _led(partitions: Mapping[int, PartitionInfo]) -> tuple[int, ...]:
    return tuple(p for p, info in partitions.items() if info.leader != NO_LEADER)


def _read_partition(partition: MetadataResponsePartition) -> PartitionInfo:
    return PartitionInfo(
        partition=partition.partition_index,
        leader=(
            NO_LEADER
            if int(partition.error_code) == ErrorCode.LEADER_NOT_AVAILABLE
            else partition.leader_id
        ),
        leader_epoch=partition.leader_epoch,
        replicas=partition.replica_nodes,
        isr=partition.isr_nodes,
        offline=partition.offline_replicas,
    )

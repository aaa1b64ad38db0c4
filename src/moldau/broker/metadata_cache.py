"""What this broker knows of the cluster: brokers, topics, leaders.

The controller feeds it; Metadata and its relatives read it. ``version`` rises with every change, so
that encoded answers can be cached and dropped together.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from moldau.controller.topic_names import is_internal
from moldau.coordination.znodes import BrokerRegistration
from moldau.model import Node


class PartitionMetadata(NamedTuple):
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    failed: tuple[int, ...] = ()
    """Replicas of live brokers whose disk failed."""
    partition_epoch: int = -1
    eligible: tuple[int, ...] = ()
    """Replicas that are not in sync and could lead all the same (KIP-966)."""

    def is_later_than(self, other: PartitionMetadata) -> bool:
        return (self.leader_epoch, self.partition_epoch) > (
            other.leader_epoch,
            other.partition_epoch,
        )

    def offline_replicas(self, live: Container[int]) -> tuple[int, ...]:
        return tuple(
            replica for replica in self.replicas if replica not in live or replica in self.failed
        )


@dataclass(slots=True)
class TopicMetadata:
    name: str
    topic_id: UUID
    partitions: dict[int, PartitionMetadata] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)


class MetadataCache:
    """The cluster as of the controller's last word."""

    def __init__(self) -> None:
        self.version = 0
        self.controller_id = -1
        self.is_complete = False
        """Whether this broker was told everything, and is not being told again: what is not here is
        not there.
        """
        self.brokers: dict[int, BrokerRegistration] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.topics_by_id: dict[UUID, TopicMetadata] = {}

    def set_controller(self, controller_id: int) -> None:
        if controller_id != self.controller_id:
            self.controller_id = controller_id
            self.version += 1

    def set_brokers(self, brokers: Iterable[BrokerRegistration]) -> None:
        self.brokers = {broker.id: broker for broker in brokers}
        self.version += 1

    def set_partition(
        self, name: str, topic_id: UUID, partition: int, state: PartitionMetadata
    ) -> None:
        topic = self.topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            if topic is not None:
                # A new topic of an old name: who still knows the old id must not reach it.
                self.topics_by_id.pop(topic.topic_id, None)
            topic = TopicMetadata(name, topic_id)
            self.topics[name] = topic
            self.topics_by_id[topic_id] = topic
        known = topic.partitions.get(partition)
        if known is not None and known.is_later_than(state):
            return
        topic.partitions[partition] = state
        self.version += 1

    def remove_topic(self, name: str) -> None:
        topic = self.topics.pop(name, None)
        if topic is not None:
            self.topics_by_id.pop(topic.topic_id, None)
            self.version += 1

    def nodes(self, listener: str) -> list[Node]:
        """Returns the live brokers that clients of ``listener`` can reach, by id."""
        return [
            Node(broker.id, endpoint.host, endpoint.port, broker.rack)
            for _, broker in sorted(self.brokers.items())
            for endpoint in broker.endpoints
            if endpoint.listener == listener
        ]

    def partition_count(self, name: str) -> int | None:
        """Returns how many partitions a topic has; None: there is no such topic."""
        topic = self.topics.get(name)
        return None if topic is None else len(topic.partitions)

    def partition(self, name: str, index: int) -> PartitionMetadata | None:
        """Returns what is known of a partition; None: there is none, here or at all."""
        topic = self.topics.get(name)
        return None if topic is None else topic.partitions.get(index)

    def has_partition(self, name: str, partition: int) -> bool:
        topic = self.topics.get(name)
        return topic is not None and partition in topic.partitions

"""What the active controller knows: the cluster as the store describes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from moldau.controller.assignment import Assignment
from moldau.controller.link import LeaderAndIsr
from moldau.controller.states import (
    PartitionState,
    ReplicaState,
    partition_states,
    replica_states,
)
from moldau.controller.topic_names import collision_key, has_collision_chars
from moldau.coordination.znodes import BrokerRegistration


@dataclass(slots=True)
class Topic:
    """A topic: who should hold its partitions, and the state of those that have one."""

    name: str
    topic_id: UUID
    assignment: Assignment
    version: int = 0
    """Of the topic's node in the store."""
    adding: Assignment = field(default_factory=dict)
    removing: Assignment = field(default_factory=dict)
    partitions: dict[int, LeaderAndIsr] = field(default_factory=dict)


class ControllerContext:
    def __init__(self, epoch: int = 0, epoch_version: int = 0) -> None:
        self.epoch = epoch
        self.epoch_version = epoch_version
        """Version of the epoch's node: every write is conditional on it."""
        self.brokers: dict[int, BrokerRegistration] = {}
        self.offline_dirs: dict[int, set[tuple[str, int]]] = {}
        """Partitions that a live broker cannot serve because their disk failed."""
        self.topics: dict[str, Topic] = {}
        self.names: dict[UUID, str] = {}
        self.deleting: set[str] = set()
        self.topic_configs: dict[str, dict[str, str]] = {}
        self.broker_configs: dict[str, dict[str, str]] = {}
        self.partition_states = partition_states()
        self.replica_states = replica_states()
        self._collisions: dict[str, set[str]] = {}

    # Topics

    def add_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self.names[topic.topic_id] = topic.name
        if has_collision_chars(topic.name):
            self._collisions.setdefault(collision_key(topic.name), set()).add(topic.name)

    def remove_topic(self, name: str) -> None:
        topic = self.topics.pop(name)
        self.names.pop(topic.topic_id, None)
        self.topic_configs.pop(name, None)
        self.deleting.discard(name)
        for failed in self.offline_dirs.values():
            failed.difference_update([one for one in failed if one[0] == name])
        if has_collision_chars(name):
            key = collision_key(name)
            self._collisions[key].discard(name)
            if not self._collisions[key]:
                del self._collisions[key]

    def colliding_topic(self, name: str) -> str | None:
        """Another topic that differs from this name only in '.' and '_'."""
        if not has_collision_chars(name):
            return None
        return min(self._collisions.get(collision_key(name), set()) - {name}, default=None)

    def existing_topic(self, name: str) -> Topic | None:
        """A topic as clients see it: one that is being deleted is not there."""
        return None if name in self.deleting else self.topics.get(name)

    def partitions(self) -> Iterator[LeaderAndIsr]:
        """The state of every partition that has one and whose topic stays."""
        for topic in self.topics.values():
            if topic.name not in self.deleting:
                yield from topic.partitions.values()

    def put(self, states: Iterable[LeaderAndIsr]) -> None:
        for state in states:
            self.topics[state.topic].partitions[state.partition] = state

    # Brokers and replicas

    @property
    def racks(self) -> Mapping[int, str | None]:
        return {broker.id: broker.rack for broker in self.brokers.values()}

    def is_online(self, broker: int, topic: str, partition: int) -> bool:
        if broker not in self.brokers:
            return False
        failed = self.offline_dirs.get(broker)
        return failed is None or (topic, partition) not in failed

    def live_replicas(self, topic: str, partition: int, replicas: Iterable[int]) -> list[int]:
        return [one for one in replicas if self.is_online(one, topic, partition)]

    def start_states(self) -> None:
        """Set both state machines to what was found in the store."""
        replicas: dict[ReplicaState, list[tuple[str, int, int]]] = {
            state: [] for state in ReplicaState
        }
        partitions: dict[PartitionState, list[tuple[str, int]]] = {
            state: [] for state in PartitionState
        }
        for topic in self.topics.values():
            name = topic.name
            absent = ReplicaState.OFFLINE
            if name in self.deleting:
                absent = ReplicaState.DELETION_INELIGIBLE
            for number, brokers in topic.assignment.items():
                for broker in brokers:
                    online = self.is_online(broker, name, number)
                    state = ReplicaState.ONLINE if online else absent
                    replicas[state].append((name, number, broker))
                found = topic.partitions.get(number)
                if found is None:
                    partitions[PartitionState.NEW].append((name, number))
                elif self.is_online(found.leader, name, number):
                    partitions[PartitionState.ONLINE].append((name, number))
                else:
                    partitions[PartitionState.OFFLINE].append((name, number))
        for replica_state, replica_keys in replicas.items():
            self.replica_states.start(replica_keys, replica_state)
        for partition_state, partition_keys in partitions.items():
            self.partition_states.start(partition_keys, partition_state)

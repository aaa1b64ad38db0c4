"""What the active controller knows: the cluster as the store describes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

import msgspec

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
from moldau.quotas.entity import ClientQuotaEntity


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
        self.shutting_down: set[int] = set()
        """Live brokers that have said that they are about to stop."""
        self.topics: dict[str, Topic] = {}
        self.names: dict[UUID, str] = {}
        self.deleting: set[str] = set()
        self.topic_configs: dict[str, dict[str, str]] = {}
        self.topic_config_versions: dict[str, int] = {}
        """How often each topic's settings have changed: the version of their node."""
        self.broker_configs: dict[str, dict[str, str]] = {}
        self.group_configs: dict[str, dict[str, str]] = {}
        self.client_metrics_configs: dict[str, dict[str, str]] = {}
        self.client_quotas: dict[ClientQuotaEntity, dict[str, float]] = {}
        self.partition_states = partition_states()
        self.replica_states = replica_states()
        self._collisions: dict[str, set[str]] = {}

    # Topics

    def add_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self.names[topic.topic_id] = topic.name
        if has_collision_chars(topic.name):
            self._collisions.setdefault(collision_key(topic.name), set()).add(topic.name)

    def put_topic_config(self, name: str, config: dict[str, str]) -> None:
        """The topic's settings were written to the store."""
        self.topic_configs[name] = config
        self.topic_config_versions[name] = self.topic_config_versions.get(name, -1) + 1

    def remove_topic(self, name: str) -> None:
        topic = self.topics.pop(name)
        self.names.pop(topic.topic_id, None)
        self.topic_configs.pop(name, None)
        self.topic_config_versions.pop(name, None)
        self.deleting.discard(name)
        for failed in self.offline_dirs.values():
            failed.difference_update([replica for replica in failed if replica[0] == name])
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
        """Returns a topic as clients see it: one that is being deleted is not there."""
        return None if name in self.deleting else self.topics.get(name)

    def partitions(self) -> Iterator[LeaderAndIsr]:
        """The state of every partition that has one and whose topic stays."""
        for topic in self.topics.values():
            if topic.name not in self.deleting:
                yield from topic.partitions.values()

    def put(self, states: Iterable[LeaderAndIsr]) -> None:
        """What is new is so only for brokers that hear of it now."""
        for state in states:
            if state.is_new:
                state = msgspec.structs.replace(state, is_new=False)
            self.topics[state.topic].partitions[state.partition] = state

    # Brokers and replicas

    @property
    def racks(self) -> Mapping[int, str | None]:
        """Where brokers are, for whoever places replicas. If none of them names its rack, those on
        one host are in one: they fail together.
        """
        racks = {broker.id: broker.rack for broker in self.brokers.values()}
        hosts = {
            broker.id: broker.endpoints[0].host
            for broker in self.brokers.values()
            if broker.endpoints
        }
        is_named = any(rack is not None for rack in racks.values())
        # If each has its own host, hosts say no more than the brokers do.
        is_shared = len(hosts) == len(racks) > len(set(hosts.values()))
        return hosts if is_shared and not is_named else racks

    def is_online(self, broker: int, topic: str, partition: int) -> bool:
        if broker not in self.brokers:
            return False
        failed = self.offline_dirs.get(broker)
        return failed is None or (topic, partition) not in failed

    def with_offline(self, state: LeaderAndIsr) -> LeaderAndIsr:
        """Returns a state that tells which live brokers cannot serve it, and no others."""
        if not self.offline_dirs and not state.offline_replicas:
            return state
        key = (state.topic, state.partition)
        offline = tuple(
            [broker for broker in state.replicas if key in self.offline_dirs.get(broker, ())]
        )
        if offline == state.offline_replicas:
            return state
        return msgspec.structs.replace(state, offline_replicas=offline)

    def live_replicas(
        self, topic: str, partition: int, replicas: Iterable[int], *, staying: bool = False
    ) -> list[int]:
        """Returns those that can serve; brokers that are about to stop come last, or with
        ``staying`` not at all.
        """
        live = [broker for broker in replicas if broker in self.brokers]
        if self.offline_dirs:
            live = [broker for broker in live if self.is_online(broker, topic, partition)]
        if self.shutting_down:
            stay = [broker for broker in live if broker not in self.shutting_down]
            leave = [] if staying else [broker for broker in live if broker in self.shutting_down]
            live = stay + leave
        return live

    def start_states(self) -> None:
        """Set both state machines to what was found in the store."""
        replicas: dict[tuple[str, int, int], ReplicaState] = {}
        partitions: dict[tuple[str, int], PartitionState] = {}
        for name, topic in self.topics.items():
            absent = ReplicaState.OFFLINE
            if name in self.deleting:
                absent = ReplicaState.DELETION_INELIGIBLE
            for number, assigned in topic.assignment.items():
                live = self.live_replicas(name, number, assigned)
                for broker in assigned:
                    online = broker in live
                    replicas[name, number, broker] = ReplicaState.ONLINE if online else absent
                state = topic.partitions.get(number)
                if state is None:
                    partitions[name, number] = PartitionState.NEW
                elif state.leader in live:
                    partitions[name, number] = PartitionState.ONLINE
                else:
                    partitions[name, number] = PartitionState.OFFLINE
        self.replica_states.start(replicas)
        self.partition_states.start(partitions)

"""The coordinators of this broker, by the internal topic that each keeps its state in.

A key (a group, a transactional id) belongs to the partition it hashes to, and that partition's
leader coordinates it. The runtime keeps a shard for each partition that this broker leads: it loads
them when leadership comes, and sends everybody away when it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from moldau.controller import NewTopic
from moldau.coordinators.host import HostState, ShardHost, Spawn
from moldau.coordinators.internal_topic import CreateTopic, InternalTopic, PartitionCount
from moldau.coordinators.partitioning import partition_for
from moldau.coordinators.requests import Answer, ErrorAnswer, PendingRequest
from moldau.coordinators.shard import Shard
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.clock import Clock
from moldau.outcome import Outcome
from moldau.records.compression import Compression
from moldau.records.control import TransactionMarker
from moldau.replication import Partition

S = TypeVar("S", bound=Shard)


@dataclass(frozen=True, slots=True)
class CoordinatorSpec(Generic[S]):
    """A kind of coordinator. Settings are asked for when they are needed: they may change."""

    topic: str
    new_topic: Callable[[], NewTopic]
    """What the topic is made as if it does not exist."""
    new_shard: Callable[[], S]
    compression: Callable[[], Compression]
    commit_timeout_ms: Callable[[], int]
    load_buffer_bytes: Callable[[], int]
    """How much of a log is replayed at a time."""


@dataclass(frozen=True, slots=True)
class RuntimePorts:
    """What all coordinators take from the broker."""

    replicas: Callable[[str], Mapping[int, Partition]]
    """The partitions of a topic that have a replica here."""
    clock: Clock
    spawn: Spawn
    partition_count: PartitionCount
    create_topic: CreateTopic


class CoordinatorRuntime:
    """Every kind of coordinator, each registered for its internal topic."""

    def __init__(self, ports: RuntimePorts) -> None:
        self._ports = ports
        self._coordinators: dict[str, Coordinator[Any]] = {}

    def register(self, spec: CoordinatorSpec[S]) -> Coordinator[S]:
        coordinator = self._coordinators[spec.topic] = Coordinator(spec, self._ports)
        return coordinator

    def topic(self, name: str) -> InternalTopic | None:
        """Returns the internal topic of this name, if a coordinator is registered for it."""
        coordinator = self._coordinators.get(name)
        return None if coordinator is None else coordinator.topic

    def leadership_changed(self, topics: Collection[str]) -> None:
        """Leaders of these topics, of all kinds, may be others now."""
        for name, coordinator in self._coordinators.items():
            if name in topics:
                coordinator.leadership_changed()

    def stop(self) -> None:
        """Answer whatever waits, serve no more."""
        for coordinator in self._coordinators.values():
            coordinator.stop()


class Coordinator(Generic[S]):
    """One kind of coordinator on this broker: its shards, in step with leadership."""

    def __init__(self, spec: CoordinatorSpec[S], ports: RuntimePorts) -> None:
        self._spec = spec
        self._ports = ports
        self._hosts: dict[int, ShardHost[S]] = {}
        self._stopped = False
        self.topic = InternalTopic(
            spec.topic, spec.new_topic, ports.partition_count, ports.create_topic
        )

    @property
    def hosts(self) -> Collection[ShardHost[S]]:
        """The shards of this broker, those still loading too."""
        return self._hosts.values()

    def partition_of(self, key: str) -> int:
        """Returns the partition of the internal topic that ``key`` belongs to."""
        return partition_for(key, self.topic.partitions)

    def host_of(self, key: str) -> ShardHost[S] | None:
        return self._hosts.get(self.partition_of(key))

    def submit(
        self, key: str, call: Callable[[S, PendingRequest, int], Outcome], error_answer: ErrorAnswer
    ) -> Answer:
        """Hand a request to the shard of its key; returns the response, or a future of it."""
        host = self.host_of(key)
        if host is None:
            return error_answer(KafkaError(ErrorCode.NOT_COORDINATOR))
        return host.submit(call, error_answer)

    def end_transaction(self, partition: int, marker: TransactionMarker) -> Answer:
        """The transaction of another coordinator is over in a partition of the internal topic;
        returns an error code, or a future of it.
        """
        host = self._hosts.get(partition)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if host is None else host.end_transaction(marker)

    def run(self, call: Callable[[S, int], Outcome]) -> None:
        """Work for every shard that no request asked for."""
        for host in tuple(self._hosts.values()):
            host.run(call)

    def leadership_changed(self) -> None:
        """Take up the partitions that this broker leads now; drop the rest."""
        if self._stopped:
            return
        led = {
            index: partition
            for index, partition in self._ports.replicas(self._spec.topic).items()
            if partition.is_leader
        }
        for index, host in tuple(self._hosts.items()):
            partition = led.get(index)
            if partition is not host.partition or partition.leader_epoch != host.leader_epoch:
                del self._hosts[index]
                host.close()
        for index, partition in led.items():
            if index not in self._hosts:
                self._hosts[index] = self._host(partition)
        self._load_new()

    def stop(self) -> None:
        """Answer whatever waits, serve no more."""
        self._stopped = True
        for host in self._hosts.values():
            host.close()
        self._hosts.clear()

    def _host(self, partition: Partition) -> ShardHost[S]:
        spec, ports = self._spec, self._ports
        return ShardHost(
            partition,
            spec.new_shard(),
            ports.clock,
            ports.spawn,
            compression=spec.compression(),
            commit_timeout_ms=spec.commit_timeout_ms(),
        )

    def _load_new(self) -> None:
        """An empty log is loaded at once; the others one after the other."""
        to_load = []
        for host in self._hosts.values():
            if host.state is HostState.LOADING and not host.load_begun:
                if host.partition.log.log_start_offset == host.partition.log.log_end_offset:
                    host.activate()
                else:
                    host.load_begun = True
                    to_load.append(host)
        if to_load:
            self._ports.spawn(self._load(to_load))

    async def _load(self, hosts: Iterable[ShardHost[S]]) -> None:
        for host in hosts:
            await host.load(self._spec.load_buffer_bytes())

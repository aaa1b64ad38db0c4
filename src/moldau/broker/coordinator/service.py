"""The group coordinator of this broker: a shard for each partition of the offsets topic it leads.

A group belongs to the partition its id hashes to, and that partition's leader coordinates it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from moldau.broker.configs import Configs
from moldau.broker.coordinator.host import HostState, ShardHost
from moldau.broker.coordinator.offsets_topic import OFFSETS_TOPIC, OffsetsTopic
from moldau.broker.coordinator.requests import Answer, ErrorAnswer, PendingRequest
from moldau.broker.coordinator.topic_view import MetadataTopics
from moldau.broker.metadata_cache import MetadataCache
from moldau.broker.tasks import Tasks
from moldau.controller import Controller
from moldau.errors import ErrorCode, KafkaError
from moldau.groups.outcome import Outcome
from moldau.groups.partitioning import partition_for
from moldau.groups.settings import GroupSettings
from moldau.log import PartitionLog
from moldau.machine import Machine
from moldau.records.compression import Compression
from moldau.replication import Partition, ReplicaManager

if TYPE_CHECKING:
    from moldau.groups.shard import GroupShard

GroupHost: TypeAlias = "ShardHost[GroupShard]"
GroupCall: TypeAlias = "Callable[[GroupShard, PendingRequest, int], Outcome]"


class GroupCoordinator:
    """Sends requests to the shard of their group, and keeps the shards in step with leadership."""

    def __init__(
        self,
        configs: Configs,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        machine: Machine,
        tasks: Tasks,
        controller: Callable[[], Controller],
        flush: Callable[[PartitionLog], Awaitable[object]],
    ) -> None:
        self._configs = configs
        self._replicas = replicas
        self._machine = machine
        self._tasks = tasks
        self._flush = flush
        self._settings = GroupSettings.from_config(configs.broker, configs.group)
        self._topics = MetadataTopics(metadata)
        self._hosts: dict[int, GroupHost] = {}
        self._stopped = False
        self.offsets_topic = OffsetsTopic(metadata, lambda: configs.broker, controller)

    @property
    def hosts(self) -> Collection[GroupHost]:
        """The shards of this broker, those still loading too."""
        return self._hosts.values()

    def partition_of(self, group_id: str) -> int:
        """The partition of the offsets topic that a group belongs to."""
        return partition_for(group_id, self.offsets_topic.partitions)

    def host_of(self, group_id: str) -> GroupHost | None:
        return self._hosts.get(self.partition_of(group_id))

    def submit(self, group_id: str, call: GroupCall, error_answer: ErrorAnswer) -> Answer:
        """Hand a request to the shard of its group; the response, or a future of it."""
        host = self.host_of(group_id)
        if host is None:
            return error_answer(ErrorCode.NOT_COORDINATOR)
        return host.submit(call, error_answer)

    # The controller's word -----------------------------------------------------------------------

    def leadership_changed(self) -> None:
        """Take up the partitions of the offsets topic that this broker leads now; drop the rest."""
        if self._stopped:
            return
        led = {
            index: partition
            for index, partition in self._replicas.topics.get(OFFSETS_TOPIC, {}).items()
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

    def topics_changed(self, names: Collection[str]) -> None:
        """Topics appeared, grew or went."""
        for host in tuple(self._hosts.values()):
            host.run(partial(host.shard.on_topics_changed, names))

    def topics_removed(self, removed: Collection[tuple[str, UUID]]) -> None:
        """Topics went: so do the offsets committed for them."""
        for host in tuple(self._hosts.values()):
            host.run(partial(host.shard.on_topics_removed, removed))

    def stop(self) -> None:
        """Answer whatever waits, serve no more."""
        self._stopped = True
        for host in self._hosts.values():
            host.close()
        self._hosts.clear()

    def _host(self, partition: Partition) -> GroupHost:
        # The messages of a dozen APIs come with it; a broker without groups starts without them.
        from moldau.groups.shard import GroupShard

        config = self._configs.broker
        return ShardHost(
            partition,
            GroupShard(self._settings, self._topics, self._machine.new_uuid),
            self._machine.clock,
            compression=Compression(config.offsets_topic_compression_codec),
            commit_timeout_ms=config.offsets_commit_timeout_ms,
            flush=self._start_flush,
        )

    def _start_flush(self, log: PartitionLog, done: Callable[[ErrorCode], None]) -> None:
        async def flush() -> None:
            try:
                await self._flush(log)
            except KafkaError as error:
                done(error.code)
            else:
                done(ErrorCode.NONE)

        self._tasks.spawn(flush())

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
            self._tasks.spawn(self._load(to_load))

    async def _load(self, hosts: Iterable[GroupHost]) -> None:
        for host in hosts:
            await host.load(self._configs.broker.offsets_load_buffer_size)

"""The partitions this broker has a replica of.

Opens and closes logs as the controller says, and is where handlers look partitions up. Files are
made in threads, so that creating very many logs does not hold up the event loop.

States change one at a time, and a replica changes its role only when nothing is under way for the
old one: a log that is being cut for one leader is not led, deleted or cut for another before that
is over. Older states are refused by leader and partition epoch (``Partition.apply``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple, Protocol
from uuid import UUID

from moldau.config.values.topic import TopicConfig
from moldau.controller import LeaderAndIsr
from moldau.errors import KafkaError
from moldau.log import LogManager, PartitionLog, StorageError, TopicSettings
from moldau.model import TopicPartition
from moldau.replication.partition import Partition
from moldau.replication.ports import LeaderPorts
from moldau.replication.replica import UNDEFINED_EPOCH

log = logging.getLogger(__name__)

PARTITIONS_PER_SLICE = 64


class Following(Protocol):
    """Who fetches for the replicas that follow."""

    bytes_in: int
    """Of records that were fetched and appended, since the start of the broker."""

    def follow(self, partition: Partition) -> None:
        """Fetch from the leader that the partition has now; nothing new if that is so already."""
        ...

    async def release(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Return once nothing is fetched for these, nor done to their logs."""
        ...

    def drop(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """These are not served any more, whatever may be under way."""
        ...


class NoFollowing:
    """Of a broker that is alone."""

    bytes_in = 0

    def follow(self, partition: Partition) -> None: ...

    async def release(self, topic_partitions: Iterable[TopicPartition]) -> None: ...

    def drop(self, topic_partitions: Iterable[TopicPartition]) -> None: ...


class LocalReplica(NamedTuple):
    """Which topic a replica is of, and the last leadership that it knows of."""

    topic_id: UUID
    leader_epoch: int = UNDEFINED_EPOCH


class ReplicaManager:
    """All local replicas, by topic and partition."""

    def __init__(
        self,
        node_id: int,
        logs: LogManager,
        topic_config: Callable[[str], TopicConfig],
        ports: LeaderPorts | None = None,
    ) -> None:
        self._node_id = node_id
        self._logs = logs
        self._topic_config = topic_config
        self.ports = LeaderPorts() if ports is None else ports
        """What the leaders among the replicas share."""
        self.on_brokers: Callable[[], None] | None = None
        """Called when brokers have come or gone."""
        self._changing = asyncio.Lock()
        self.following: Following = NoFollowing()
        self._offline: set[TopicPartition] = set()
        self.topics: dict[str, dict[int, Partition]] = {}
        self.on_offline: Callable[[list[TopicPartition]], None] | None = None
        """Called with the replicas that a failed disk took away: the controller has to know."""
        logs.on_offline = self._log_dir_failed
        logs.on_replaced = self._log_replaced

    def is_offline(self, topic: str, index: int) -> bool:
        """Returns whether the replica should be here but its disk failed."""
        return (topic, index) in self._offline

    @property
    def offline_count(self) -> int:
        """How many replicas should be here but cannot be served."""
        return len(self._offline)

    def describe(self, topic_partition: TopicPartition) -> LocalReplica | None:
        """Returns whose replica this broker has, served or not; None if it has none."""
        topic, index = topic_partition
        partition = self.topics.get(topic, {}).get(index)
        if partition is not None:
            return LocalReplica(partition.topic_id, partition.leader_epoch)
        topic_id = self._logs.topic_id(topic_partition)
        return None if topic_id is None else LocalReplica(topic_id)

    def _log_dir_failed(self, lost: list[TopicPartition]) -> None:
        """A log directory failed: its replicas are not served until it is back at a restart."""
        self.following.drop(lost)
        for topic_partition in lost:
            topic, index = topic_partition
            partitions = self.topics.get(topic, {})
            if partitions.pop(index, None) is not None:
                self._offline.add(topic_partition)
            if not partitions:
                self.topics.pop(topic, None)
        if self.on_offline is not None:
            self.on_offline(lost)

    def _log_replaced(self, new: PartitionLog) -> None:
        topic, index = new.topic_partition
        partition = self.topics.get(topic, {}).get(index)
        if partition is not None:
            partition.use_log(new)

    def partitions(self) -> Iterator[Partition]:
        """All replicas that are served here."""
        return chain.from_iterable(there.values() for there in list(self.topics.values()))

    def set_brokers(self, epochs: Mapping[int, int]) -> None:
        """The brokers that are registered, with their epochs."""
        if self.ports.alive != epochs:
            self.ports.alive = dict(epochs)
            if self.on_brokers is not None:
                self.on_brokers()

    def high_watermarks(self) -> Mapping[TopicPartition, int]:
        """Returns what the high-watermark checkpoint stores."""
        return {
            partition.topic_partition: partition.high_watermark
            for partitions in self.topics.values()
            for partition in partitions.values()
        }

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        """Of one partition; None if it is not served here."""
        topic, index = topic_partition
        partition = self.topics.get(topic, {}).get(index)
        return None if partition is None else partition.high_watermark

    async def apply(self, states: Iterable[LeaderAndIsr]) -> list[TopicPartition]:
        """Become leader or follower of each partition with a replica here; returns those that
        failed.

        Returns when all that is stored can be read: where ``flush.messages`` asks for it, what a
        crash left unsynced is flushed first.
        """
        local = [state for state in states if self._node_id in state.replicas]
        async with self._changing:
            await self.following.release(
                [state.topic_partition for state in local if self._moves_leader(state)]
            )
            logs = await self._open_logs([state for state in local if self._known(state) is None])
            failed = [
                state.topic_partition
                for state in local
                if not self._apply(state, logs.get(state.topic_partition))
            ]
            for state in local:
                known = self._known(state)
                if known is None:
                    continue
                if known.awaits_flush:
                    with suppress(StorageError):  # told by the log, which is offline or full
                        await self._logs.flush(known.log)
                if known.follows >= 0:
                    self.following.follow(known)
        return failed

    def _moves_leader(self, state: LeaderAndIsr) -> bool:
        known = self.topics.get(state.topic, {}).get(state.partition)
        return known is not None and (
            known.topic_id != state.topic_id
            or known.leader_epoch != state.leader_epoch
            or known.leader_id != state.leader
        )

    async def _open_logs(
        self, states: Sequence[LeaderAndIsr]
    ) -> dict[TopicPartition, PartitionLog | StorageError]:
        """Returns the logs of replicas that are not served yet, made where there are none."""
        logs: dict[TopicPartition, PartitionLog | StorageError] = {}
        for is_new in (False, True):
            wanted = [
                (state.topic_partition, state.topic_id, self._topic_config(state.topic))
                for state in states
                if state.is_new is is_new
            ]
            if wanted:
                logs |= await self._logs.get_or_create_many(wanted, is_new=is_new)
        return logs

    def _known(self, state: LeaderAndIsr) -> Partition | None:
        known = self.topics.get(state.topic, {}).get(state.partition)
        return known if known is not None and known.topic_id == state.topic_id else None

    def _apply(self, state: LeaderAndIsr, log_or_error: PartitionLog | StorageError | None) -> bool:
        topic_partition = state.topic_partition
        known = self._known(state)
        try:
            if known is not None:
                known.apply(state)
                return True
            assert log_or_error is not None
            if isinstance(log_or_error, StorageError):
                raise log_or_error
            partition = Partition(
                self._node_id,
                log_or_error,
                state,
                high_watermark=self._logs.checkpointed_high_watermarks.pop(topic_partition, 0),
                ports=self.ports,
            )
        except (KafkaError, OSError) as error:
            # One bad disk or directory must not keep the other partitions from being served.
            log.error("partition %s is offline: %s", topic_partition, error)
            self._offline.add(topic_partition)
            return False
        partitions = self.topics.setdefault(state.topic, {})
        older = partitions.get(state.partition)
        partitions[state.partition] = partition
        if older is not None:
            older.resign()  # it was of an older topic of the same name
        self._offline.discard(topic_partition)
        return True

    async def stop(
        self, topic_partitions: Iterable[TopicPartition], *, delete: bool
    ) -> list[TopicPartition]:
        """Stop serving partitions; with ``delete`` their logs go too, for good.

        Returns those that could not be deleted.
        """
        async with self._changing:
            topic_partitions = list(topic_partitions)
            await self.following.release(topic_partitions)
            return await self._stop(topic_partitions, delete=delete)

    async def _stop(
        self, topic_partitions: Sequence[TopicPartition], *, delete: bool
    ) -> list[TopicPartition]:
        failed: list[TopicPartition] = []
        stopped: list[TopicPartition] = []
        for count, topic_partition in enumerate(topic_partitions):
            topic, index = topic_partition
            self._offline.discard(topic_partition)
            partitions = self.topics.get(topic, {})
            partition = partitions.pop(index, None)
            if partition is not None:
                partition.resign()
            if not partitions:
                self.topics.pop(topic, None)
            stopped.append(topic_partition)
            if delete and not self._delete_log(topic_partition):
                failed.append(topic_partition)
            if count % PARTITIONS_PER_SLICE == PARTITIONS_PER_SLICE - 1:
                await asyncio.sleep(0)
        if delete:
            try:
                # Before the store forgets the topic: what comes back would be adopted.
                await self._logs.sync_deletions()
            except OSError as error:
                log.error("deletions may be undone by a power cut: %s", error)
                return stopped
        return failed

    def _delete_log(self, topic_partition: TopicPartition) -> bool:
        try:
            self._logs.delete(topic_partition)
        except (KafkaError, OSError) as error:
            log.error("could not delete the log of %s: %s", topic_partition, error)
            return False
        return True

    async def keep_topic_configs(self, settings: Mapping[str, TopicSettings]) -> None:
        """Keep copies of these topics' settings with their partitions."""
        if settings:
            await self._logs.topic_configs.keep(settings)

    def reconfigure(self, topic: str) -> None:
        """A topic's settings changed: its logs use the new ones from the next append on."""
        partitions = self.topics.get(topic)
        if partitions:
            config = self._topic_config(topic)
            for partition in partitions.values():
                partition.log.config = config
                partition.review_replicas()

    def wake_all(self) -> None:
        """Answer everything that is parked, at shutdown."""
        for partitions in self.topics.values():
            for partition in partitions.values():
                partition.disturb()
                partition.give_up_appends()

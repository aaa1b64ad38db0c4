"""The partitions this broker has a replica of.

Opens and closes logs as the controller says, and is where handlers look partitions up. Creating
very many logs is done in slices, with the event loop running in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from moldau.config import TopicConfig
from moldau.controller import LeaderAndIsr
from moldau.errors import KafkaError
from moldau.log import LogManager
from moldau.model import TopicPartition
from moldau.replication.partition import Partition

log = logging.getLogger(__name__)

PARTITIONS_PER_SLICE = 64


class ReplicaManager:
    """All local replicas, by topic and partition."""

    def __init__(
        self, node_id: int, logs: LogManager, topic_config: Callable[[str], TopicConfig]
    ) -> None:
        self._node_id = node_id
        self._logs = logs
        self._topic_config = topic_config
        self._offline: set[TopicPartition] = set()
        self.topics: dict[str, dict[int, Partition]] = {}

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether the replica should be here but its disk failed."""
        return (topic, index) in self._offline

    def high_watermarks(self) -> Mapping[TopicPartition, int]:
        """What the high-watermark checkpoint stores."""
        return {
            partition.topic_partition: partition.high_watermark
            for partitions in self.topics.values()
            for partition in partitions.values()
        }

    async def apply(self, states: Iterable[LeaderAndIsr]) -> list[TopicPartition]:
        """Become leader or follower of each partition with a replica here; answers those that
        failed.
        """
        failed = []
        for count, state in enumerate(states):
            if self._node_id in state.replicas and not self._apply(state):
                failed.append(state.topic_partition)
            if count % PARTITIONS_PER_SLICE == PARTITIONS_PER_SLICE - 1:
                await asyncio.sleep(0)
        return failed

    def _apply(self, state: LeaderAndIsr) -> bool:
        topic_partition = TopicPartition(state.topic, state.partition)
        partitions = self.topics.setdefault(state.topic, {})
        known = partitions.get(state.partition)
        try:
            if known is not None and known.topic_id == state.topic_id:
                known.apply(state)
                return True
            partition_log = self._logs.get_or_create(
                topic_partition, state.topic_id, self._topic_config(state.topic)
            )
            partitions[state.partition] = Partition(
                self._node_id,
                partition_log,
                state,
                high_watermark=self._logs.checkpointed_high_watermarks.pop(topic_partition, 0),
            )
        except (KafkaError, OSError) as error:
            # One bad disk or directory must not keep the other partitions from being served.
            log.error("partition %s is offline: %s", topic_partition, error)
            self._offline.add(topic_partition)
            return False
        if known is not None:
            known.resign()  # it was of an older topic of the same name
        self._offline.discard(topic_partition)
        return True

    async def stop(self, topic_partitions: Iterable[TopicPartition], *, delete: bool) -> None:
        """Stop serving partitions; with ``delete`` their logs go too."""
        for count, topic_partition in enumerate(topic_partitions):
            topic, index = topic_partition
            self._offline.discard(topic_partition)
            partitions = self.topics.get(topic, {})
            partition = partitions.pop(index, None)
            if partition is not None:
                partition.resign()
            if not partitions:
                self.topics.pop(topic, None)
            if delete:
                self._delete_log(topic_partition)
            if count % PARTITIONS_PER_SLICE == PARTITIONS_PER_SLICE - 1:
                await asyncio.sleep(0)

    def _delete_log(self, topic_partition: TopicPartition) -> None:
        try:
            self._logs.delete(topic_partition)
        except (KafkaError, OSError) as error:
            log.error("could not delete the log of %s: %s", topic_partition, error)

    def reconfigure(self, topic: str) -> None:
        """A topic's settings changed: its logs use the new ones from the next append on."""
        partitions = self.topics.get(topic)
        if partitions:
            config = self._topic_config(topic)
            for partition in partitions.values():
                partition.log.config = config

    def wake_all(self) -> None:
        """Answer everything that is parked, at shutdown."""
        for partitions in self.topics.values():
            for partition in partitions.values():
                partition.disturb()
                partition.give_up_appends()

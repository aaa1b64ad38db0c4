"""Looks at the replicas of a cluster from outside, while it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final
from uuid import UUID

from moldau.coordination import paths, znodes
from moldau.log import PartitionLog
from moldau.model import TopicPartition
from moldau.replication.partition import Partition
from moldau.testing.simulation.checker.history import History
from moldau.testing.simulation.checker.replicas import (
    PartitionSight,
    ReplicaChecker,
    ReplicaSight,
)
from moldau.testing.simulation.cluster import SimulatedCluster

EVERY: Final = 0.1
"""Seconds between two looks."""
COMPARED_EVERY: Final = 10
"""So many looks are between two at the contents of replicas."""

Key = tuple[TopicPartition, UUID]


class ReplicaWatch:
    """Shows a checker every partition, several times a second and at the end."""

    def __init__(self, cluster: SimulatedCluster, history: History) -> None:
        self.checker = ReplicaChecker()
        self._cluster = cluster
        self._history = history
        self._compared: dict[Key, int] = {}
        """Up to where the replicas of a partition were found to be equal."""
        self._watching: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._watching = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        looks = 0
        while True:
            await asyncio.sleep(EVERY)
            self.look(compares=looks % COMPARED_EVERY == 0)
            looks += 1

    def end(self) -> None:
        """Look once more, at everything from the start."""
        if self._watching is not None:
            self._watching.cancel()
        self._compared.clear()
        self.look(compares=True)

    def look(self, *, compares: bool) -> None:
        """Nothing happens meanwhile: what the store says and what brokers have is of one moment."""
        for (partition, topic_id), replicas in self._replicas().items():
            self.checker.saw(
                PartitionSight(
                    self._history.now(),
                    partition,
                    topic_id,
                    self._isr(partition, topic_id),
                    {broker: self._sight(broker, each) for broker, each in replicas.items()},
                )
            )
            if compares and partition.topic not in self._history.compacted:
                self._compare((partition, topic_id), replicas)

    def _replicas(self) -> dict[Key, dict[int, Partition]]:
        found: dict[Key, dict[int, Partition]] = {}
        for node_id, broker in self._cluster.running.items():
            for partitions in broker.replicas.topics.values():
                for each in partitions.values():
                    found.setdefault((each.topic_partition, each.topic_id), {})[node_id] = each
        return found

    def _isr(self, partition: TopicPartition, topic_id: UUID) -> dict[int, int] | None:
        ensemble = self._cluster.ensemble
        if not ensemble.node.is_running:
            return None
        nodes = ensemble.store.tree.nodes
        topic = nodes.get(paths.topic(partition.topic))
        state = nodes.get(paths.partition_state(*partition))
        if topic is None or state is None:
            return None
        if znodes.decode_topic(partition.topic, topic.data).topic_id != topic_id:
            return None
        decoded = znodes.decode_state(state.data, *partition)
        return dict(zip(decoded.isr, decoded.broker_epochs, strict=False))

    def _sight(self, node_id: int, replica: Partition) -> ReplicaSight:
        peers = self._cluster.running[node_id].peers
        return ReplicaSight(
            replica.is_leader,
            replica.leader_epoch,
            replica.log.log_start_offset,
            replica.high_watermark,
            replica.log.log_end_offset,
            -1 if peers is None else peers.broker_epoch(),
        )

    def _compare(self, key: Key, replicas: Mapping[int, Partition]) -> None:
        logs = {
            node_id: replica.log
            for node_id, replica in replicas.items()
            if replica.log.failure is None
        }
        if len(logs) < 2:
            return
        start = max(log.log_start_offset for log in logs.values())
        start = max(start, self._compared.get(key, 0))
        end = min(replicas[node_id].high_watermark for node_id in logs)
        if start < end:
            contents = {node_id: content(log, start, end) for node_id, log in logs.items()}
            self.checker.compare(self._history.now(), key[0], contents)
            self._compared[key] = end


def content(log: PartitionLog, start: int, end: int) -> bytes:
    """Returns the batches that lie wholly or in part in a range of offsets."""
    return b"".join(_batches(log, start, end))


def _batches(log: PartitionLog, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        place = log.read(start, 1 << 30, end)
        if place is None:
            return
        data = place.read()
        yield data
        start = _next_offset(data, start)


def _next_offset(data: bytes, start: int) -> int:
    """Returns where the log goes on behind some batches."""
    position = 0
    while position < len(data):
        base = int.from_bytes(data[position : position + 8])
        length = int.from_bytes(data[position + 8 : position + 12])
        start = base + int.from_bytes(data[position + 23 : position + 27]) + 1
        position += 12 + length
    return start

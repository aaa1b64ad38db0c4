"""A real partition over a disk in memory, and batches to put into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from moldau.config.values.topic import TopicConfig
from moldau.controller import LeaderAndIsr
from moldau.log import PartitionLog
from moldau.log.recovery.opening import load_log
from moldau.model import TopicPartition
from moldau.records.batch import iter_headers
from moldau.records.builder import build_batch
from moldau.records.record import Record
from moldau.replication import Partition, PartitionRead
from moldau.testing.disk import MemoryDisk

NOW_MS = 1_700_000_000_000
LOCAL, SECOND, THIRD = 1, 2, 3
TOPIC_ID = UUID(int=7)
PLENTY = 1 << 20


def make_log(
    config: TopicConfig | None = None, disk: MemoryDisk | None = None, *, topic: str = "t"
) -> PartitionLog:
    disk = disk or MemoryDisk()
    directory = f"/logs/{topic}-0"
    disk.makedirs(directory)
    return load_log(
        disk, directory, TopicPartition(topic, 0), config or TopicConfig(), now_ms=NOW_MS
    )


def state(
    *,
    leader: int = LOCAL,
    epoch: int = 0,
    isr: Sequence[int] = (LOCAL,),
    replicas: Sequence[int] = (LOCAL, SECOND, THIRD),
    partition_epoch: int = 0,
    topic: str = "t",
    topic_id: UUID = TOPIC_ID,
) -> LeaderAndIsr:
    return LeaderAndIsr(
        topic=topic,
        topic_id=topic_id,
        partition=0,
        leader=leader,
        leader_epoch=epoch,
        isr=tuple(isr),
        replicas=tuple(replicas),
        partition_epoch=partition_epoch,
        controller_epoch=1,
    )


def make_partition(
    *isr: int, min_insync_replicas: int = 1, disk: MemoryDisk | None = None
) -> Partition:
    """A partition led by ``LOCAL`` with the given in-sync replicas."""
    config = replace(TopicConfig(), min_insync_replicas=min_insync_replicas)
    return Partition(LOCAL, make_log(config, disk), state(isr=isr or (LOCAL,)))


def batch(count: int = 1, value: bytes = b"value", **settings: Any) -> memoryview:
    records = [Record(0, NOW_MS, b"key", value, ()) for _ in range(count)]
    return memoryview(build_batch(records, **settings))


def append(partition: Partition, count: int = 1, *, acks: int = -1) -> int:
    """Append a batch; returns the log end after it."""
    return partition.append(batch(count), acks, NOW_MS).last_offset + 1


def offsets(read: PartitionRead) -> list[int]:
    """Base offsets of the batches that a read found."""
    if read.records is None:
        return []
    return [header.base_offset for _, header in iter_headers(memoryview(read.records.read()))]

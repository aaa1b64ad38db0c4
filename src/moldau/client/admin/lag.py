"""How far a group, or any reader, is behind, per partition: in records, and in time."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from moldau.client.admin.calls import Caller
from moldau.client.admin.group_offsets import fetch
from moldau.client.admin.group_types import PartitionLag
from moldau.client.cluster import Cluster
from moldau.client.consumer.partition_reader import PartitionReader, ReaderSettings
from moldau.client.offsets import OffsetSpec, list_offsets
from moldau.model import OffsetAndMetadata, TopicPartition


async def group_lag(
    caller: Caller, group: str, partitions: Collection[TopicPartition] = ()
) -> dict[TopicPartition, PartitionLag]:
    """Of everything the group has committed, and of the given partitions."""
    committed = await fetch(caller, group)
    return await partition_lag(caller.cluster, committed, partitions)


async def partition_lag(
    cluster: Cluster,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    partitions: Collection[TopicPartition] = (),
) -> dict[TopicPartition, PartitionLag]:
    """Of whoever reads on from these offsets."""
    wanted = sorted({*committed, *partitions})
    ends = await _ends(cluster, wanted)
    offsets = {place: offset.offset for place, offset in committed.items() if place in ends}
    behind = await _behind_ms(cluster, offsets, ends)
    return {
        place: PartitionLag(committed.get(place), ends.get(place), behind.get(place))
        for place in wanted
    }


async def _ends(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The next offset of every partition that still exists and has a leader."""
    metadata = cluster.metadata
    if any(partition.topic not in metadata.topics for partition in partitions):
        metadata = await cluster.refresh(None)
    there = [
        partition
        for partition in partitions
        if partition.topic in metadata.topics
        and partition.partition in metadata.topics[partition.topic].with_leader
    ]
    offsets = await list_offsets(cluster, dict.fromkeys(there, OffsetSpec.LATEST))
    return {partition: entry.offset for partition, entry in offsets.items()}


async def _behind_ms(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """How long the oldest record not consumed yet has been waiting; 0 when there is none."""
    behind = {place: 0 for place, offset in offsets.items() if offset >= ends[place]}
    positions = {place: offset for place, offset in offsets.items() if place not in behind}
    if positions:
        stamps = await _first_timestamps(cluster, positions, ends)
        now_ms = cluster.machine.clock.now_ms()
        behind |= {place: max(0, now_ms - stamp) for place, stamp in stamps.items()}
    return behind


async def _first_timestamps(
    cluster: Cluster, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The timestamp of the first record at or after each position: one small fetch per leader."""
    settings = ReaderSettings(partition_max_bytes=1, out_of_range="earliest")
    until = {partition: ends[partition] for partition in positions}
    stamps: dict[TopicPartition, int] = {}
    async with PartitionReader(cluster, positions, until=until, settings=settings) as reader:
        while not reader.ended and stamps.keys() < positions.keys():
            for partition, records, _ in await reader.poll():
                stamps.setdefault(partition, records[0].timestamp)
    return stamps

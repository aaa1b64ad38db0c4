"""All that is followed: a few fetchers for each leader, and which partition is with which."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from zlib import crc32

from moldau.model import TopicPartition
from moldau.replication.followers.fetcher import ReplicaFetcher
from moldau.replication.followers.ports import FollowerPorts
from moldau.replication.partition import Partition


class ReplicaFetchers:
    """``num.replica.fetchers`` for each leader; a partition stays with one while its leader
    does.
    """

    def __init__(self, ports: FollowerPorts) -> None:
        self._ports = ports
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._where: dict[TopicPartition, ReplicaFetcher] = {}
        self._is_closed = False
        self.bytes_in = 0
        """Of records that were appended, since the start of the broker."""

    def __len__(self) -> int:
        return len(self._where)

    @property
    def problems(self) -> int:
        """How many partitions cannot be fetched just now."""
        return sum(
            followed is not None and followed.problem is not None
            for followed in (fetcher.find(key) for key, fetcher in self._where.items())
        )

    def follow(self, partition: Partition) -> None:
        """Fetch from the leader that the partition has now; nothing new if that is so already."""
        key = partition.topic_partition
        fetcher = self._where.get(key)
        if fetcher is not None:
            followed = fetcher.find(key)
            if followed is not None and followed.partition is partition and followed.is_wanted():
                return
            self.drop((key,))
        if self._is_closed:
            return
        number = crc32(f"{key}".encode()) % max(self._ports.fetchers_per_leader(), 1)
        self._where[key] = fetcher = self._fetcher(partition.follows, number)
        fetcher.add(partition)

    async def release(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Return once nothing is fetched for these, nor done to their logs."""
        under_way = self._remove(topic_partitions)
        if under_way:
            await asyncio.wait(under_way)

    def drop(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """These are not served any more, whatever may be under way."""
        self._remove(topic_partitions)

    async def close(self) -> None:
        self._is_closed = True
        self._where.clear()
        for fetcher in tuple(self._fetchers.values()):
            await fetcher.close()
        self._fetchers.clear()

    def _remove(self, topic_partitions: Iterable[TopicPartition]) -> list[asyncio.Task[None]]:
        by_fetcher: dict[ReplicaFetcher, list[TopicPartition]] = {}
        for key in topic_partitions:
            fetcher = self._where.pop(key, None)
            if fetcher is not None:
                by_fetcher.setdefault(fetcher, []).append(key)
        return [task for fetcher, keys in by_fetcher.items() for task in fetcher.remove(keys)]

    def _fetcher(self, leader_id: int, number: int) -> ReplicaFetcher:
        name = leader_id, number
        fetcher = self._fetchers.get(name)
        if fetcher is None:

            def forget() -> None:
                del self._fetchers[name]

            fetcher = self._fetchers[name] = ReplicaFetcher(
                leader_id, self._ports, on_idle=forget, on_bytes=self._count
            )
        return fetcher

    def _count(self, size: int) -> None:
        self.bytes_in += size

"""Reads the owned partitions ahead of the caller, and starts over when they change.

Positions are of what was handed out, not of what was fetched: whatever waits here when partitions
come or go is dropped and read again, by this consumer or by the next owner.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Collection, Mapping

from moldau.client.cluster import Cluster
from moldau.client.consumer.partition_reader import (
    PartitionReader,
    PartitionRecords,
    ReaderSettings,
)
from moldau.model import TopicPartition
from moldau.records.consumer_record import ConsumerRecord

READ_AHEAD = 4
"""How many answers of brokers wait for the caller, besides the one under way."""


class Reading:
    def __init__(self, cluster: Cluster, settings: ReaderSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._positions: dict[TopicPartition, int] = {}
        self._ready: deque[PartitionRecords] = deque()
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The offset that comes next for the caller, of each partition that is read."""
        return self._positions

    async def add(self, positions: Mapping[TopicPartition, int]) -> None:
        await self._restart({**self._positions, **positions})

    async def remove(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Hand nothing of them out any more; their positions."""
        gone = {
            partition: self._positions[partition]
            for partition in partitions
            if partition in self._positions
        }
        await self._restart({k: v for k, v in self._positions.items() if k not in gone})
        return gone

    def take(self, max_records: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The records that are there; raises what the reader cannot recover from."""
        if not self._ready:
            self._raise_failure()
        by_partition: dict[TopicPartition, list[ConsumerRecord]] = {}
        while self._ready and max_records > 0:
            partition, records, high_watermark = self._ready.popleft()
            if len(records) > max_records:
                rest = PartitionRecords(partition, records[max_records:], high_watermark)
                self._ready.appendleft(rest)
                records = records[:max_records]
            max_records -= len(records)
            by_partition.setdefault(partition, []).extend(records)
            self._positions[partition] = records[-1].offset + 1
        if len(self._ready) < READ_AHEAD:
            self._room.set()
        return by_partition

    async def wait_for_news(self, timeout: float) -> None:
        """Wait until there are records, or something else to look at."""
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._news.wait()

    def wake(self) -> None:
        """Let a caller look again who waits for news."""
        self._news.set()

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._ready.clear()

    async def _restart(self, positions: dict[TopicPartition, int]) -> None:
        self._positions = positions  # first: from now on nothing else is handed out
        self._ready.clear()
        await self.stop()
        if positions:
            self._task = asyncio.create_task(self._read(dict(positions)), name="reading ahead")
            self._task.add_done_callback(lambda _task: self._news.set())

    async def _read(self, positions: dict[TopicPartition, int]) -> None:
        async with PartitionReader(self._cluster, positions, settings=self._settings) as reader:
            while True:
                self._ready.extend(await reader.poll())
                if self._ready:
                    self._news.set()
                while len(self._ready) >= READ_AHEAD:
                    self._room.clear()
                    await self._room.wait()

    def _raise_failure(self) -> None:
        task = self._task
        if task is not None and task.done() and not task.cancelled():
            error = task.exception()
            if error is not None:
                raise error

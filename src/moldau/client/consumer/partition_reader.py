"""Reads partitions from given offsets on, without a group: follows leaders, survives restarts.

Partitions of one leader share one fetch at a time; the next is already under way while the caller
looks at the records of the last. Positions live here and nowhere else: nothing is committed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from moldau.client.backoff import Backoff
from moldau.client.closing import AsyncClosing
from moldau.client.cluster import Cluster
from moldau.client.consumer.fetch.fetched import FetchedRecords
from moldau.client.offsets import OffsetSpec, list_offsets
from moldau.client.settings import ConsumerSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.fetch import FetchParams, PartitionFetch, fetch
from moldau.model import TopicPartition
from moldau.records.consumer_record import ConsumerRecord
from moldau.request_errors import check, error_of
from moldau.wire.fetch import FetchedPartition

OutOfRange = Literal["raise", "earliest", "latest"]
_ALL = 2**63


class PartitionRecords(NamedTuple):
    """Some records of one partition, in order."""

    partition: TopicPartition
    records: list[ConsumerRecord]
    high_watermark: int


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    read_committed: bool = False
    max_wait: float = ConsumerSettings.fetch_max_wait_ms.default / 1000
    min_bytes: int = ConsumerSettings.fetch_min_bytes.default
    max_bytes: int = 16 * 1024 * 1024
    partition_max_bytes: int = ConsumerSettings.max_partition_fetch_bytes.default
    out_of_range: OutOfRange = "raise"


class PartitionReader(AsyncClosing):
    """``async for partition, records, _ in PartitionReader(cluster, {TopicPartition("t", 0): 0})``.

    ``until`` gives, for some or all partitions, the offset at which reading ends; when all have
    ended, so does the iteration.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, int],
        *,
        until: Mapping[TopicPartition, int] | None = None,
        settings: ReaderSettings | None = None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings or ReaderSettings()
        self._until = dict(until or {})
        self._positions = dict(positions)
        self._fetches: dict[int, asyncio.Task[list[PartitionRecords]]] = {}
        self._backoff: Backoff | None = None
        for partition in positions:
            self._finish_if_at_end(partition)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The offset that comes next, of each partition that has not ended."""
        return self._positions

    @property
    def ended(self) -> bool:
        """Whether all partitions have ended and everything that was fetched has been handed out."""
        return not self._positions and not self._fetches

    async def poll(self) -> list[PartitionRecords]:
        """What came first. Empty when nothing did within ``max_wait``, or when all has ended."""
        while not self.ended:
            await self._start_fetches()
            done, _ = await asyncio.wait(
                self._fetches.values(), return_when=asyncio.FIRST_COMPLETED
            )
            records: list[PartitionRecords] = []
            failure: KafkaError | None = None
            for node_id in [node for node, task in self._fetches.items() if task in done]:
                try:
                    records += self._fetches.pop(node_id).result()
                except KafkaError as error:
                    failure = error
            if failure is None:
                self._backoff = None
            elif not records:
                await self._recover(failure)
                continue
            await self._start_fetches()
            return records
        return []

    async def close(self) -> None:
        for task in self._fetches.values():
            task.cancel()
        await asyncio.gather(*self._fetches.values(), return_exceptions=True)
        self._fetches.clear()

    def __aiter__(self) -> AsyncIterator[PartitionRecords]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[PartitionRecords]:
        while not self.ended:
            for records in await self.poll():
                yield records

    async def _start_fetches(self) -> None:
        """One fetch to every leader that has none under way."""
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        while True:
            try:
                for partition in list(self._positions):
                    leader, _ = await self._cluster.leader(partition)
                    by_leader[leader].append(partition)
                break
            except KafkaError as error:
                if self._fetches:
                    return
                by_leader.clear()
                await self._recover(error)
        for leader, partitions in by_leader.items():
            if leader not in self._fetches:
                task = asyncio.create_task(self._fetch(leader, partitions))
                self._fetches[leader] = task

    async def _recover(self, error: KafkaError) -> None:
        """Forget what may be old, wait a little, or give up."""
        if not error.retriable:
            raise error
        if self._backoff is None:
            self._backoff = self._cluster.backoff(self._cluster.request_timeout)
        for topic in dict.fromkeys(partition.topic for partition in self._positions):
            self._cluster.forget(topic)
        await self._backoff.pause(error)

    async def _fetch(self, leader: int, partitions: list[TopicPartition]) -> list[PartitionRecords]:
        connection = await self._cluster.connection(leader, "fetch")
        settings = self._settings
        wanted = {partition: await self._wanted(partition) for partition in partitions}
        params = FetchParams(
            max_wait_ms=round(settings.max_wait * 1000),
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            read_committed=settings.read_committed,
        )
        answer = await fetch(connection, wanted, params, within=self._cluster.request_timeout)
        check(answer.error_code)
        records = []
        failures: list[KafkaError] = []
        for partition, result in answer.partitions.items():
            error = error_of(result.error_code)
            if error is not None:
                failures.append(await self._partition_failed(partition, error))
            elif partition in self._positions:
                records += self._partition_fetched(partition, result)
        if failures and not records:
            raise failures[0]
        return records

    async def _wanted(self, partition: TopicPartition) -> PartitionFetch:
        topic = await self._cluster.topic(partition.topic)
        return PartitionFetch(
            topic.topic_id,
            self._positions[partition],
            self._settings.partition_max_bytes,
            topic.partitions[partition.partition].leader_epoch,
        )

    def _partition_fetched(
        self, partition: TopicPartition, result: FetchedPartition
    ) -> list[PartitionRecords]:
        data: Any = result.records
        if not data:
            return []
        offset = self._positions[partition]
        aborted = (result.aborted or ()) if self._settings.read_committed else None
        records, next_offset = _read(
            FetchedRecords(partition, offset, data, aborted=aborted), self._until.get(partition)
        )
        if next_offset == offset:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"{partition} answered no whole batch at offset {offset}"
            )
        del self._positions[partition]
        # Back at the end of the line: with a full answer, the others come first next time.
        self._positions[partition] = next_offset
        self._finish_if_at_end(partition)
        return [PartitionRecords(partition, records, result.high_watermark)] if records else []

    async def _partition_failed(self, partition: TopicPartition, error: KafkaError) -> KafkaError:
        """Put an error of one partition into words, or repair its position."""
        if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
            return KafkaError(error.code, error.message or f"{partition} cannot be read now")
        first = (await list_offsets(self._cluster, {partition: OffsetSpec.EARLIEST}))[partition]
        end = (await list_offsets(self._cluster, {partition: OffsetSpec.LATEST}))[partition]
        if self._settings.out_of_range == "raise":
            return KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{partition} has offsets {first.offset} to {end.offset}, "
                f"not {self._positions[partition]}",
            )
        to_first = self._settings.out_of_range == "earliest"
        self._positions[partition] = first.offset if to_first else end.offset
        return KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition} was reset")

    def _finish_if_at_end(self, partition: TopicPartition) -> None:
        end = self._until.get(partition)
        if end is not None and self._positions[partition] >= end:
            del self._positions[partition]


def _read(fetched: FetchedRecords, until: int | None) -> tuple[list[ConsumerRecord], int]:
    """All records that came, those from ``until`` on left out, and the offset to go on from."""
    records: list[ConsumerRecord] = []
    while until is None or fetched.position.offset < until:
        batch = fetched.take(_ALL)
        if not batch:
            break
        records += batch
    next_offset = fetched.position.offset
    if until is not None and next_offset > until:
        records = [record for record in records if record.offset < until]
        next_offset = until
    return records, next_offset

"""Batches on their way to a partition: the open one that collects records, and those that wait.

No IO and no clock here: the sender decides when a batch is closed and what became of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from moldau.errors import KafkaError
from moldau.model import TopicPartition
from moldau.records.builder import BatchBuilder, record_size_bound
from moldau.records.compression import Compression
from moldau.records.reader import read_records


class RecordMetadata(NamedTuple):
    """Where an acknowledged record is. The offset is -1 with acks=0: nobody told."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Placed(NamedTuple):
    """Where a batch was appended."""

    base_offset: int
    append_time: int
    """-1 where the records keep the timestamps they came with."""


class Split(NamedTuple):
    """The batch was too large for the broker and went on as two."""

    first: Batch
    second: Batch


class Batch:
    """Some records of one partition that are sent, acknowledged and refused together."""

    __slots__ = ("buffered", "builder", "data", "done", "partition", "sequence", "timestamps")

    def __init__(self, partition: TopicPartition, builder: BatchBuilder) -> None:
        self.partition = partition
        self.builder = builder
        self.timestamps: list[int] = []
        self.data: bytearray | None = None
        """The encoded batch, once it was sent for the first time: retries send the same bytes."""
        self.sequence = -1
        self.buffered = 0
        """Bytes of the producer's memory that become free with this batch."""
        self.done: asyncio.Future[Placed | Split] = asyncio.get_running_loop().create_future()
        # Whoever does not await deliveries one by one learns of failures from flush().
        self.done.add_done_callback(_mark_retrieved)

    @property
    def count(self) -> int:
        return len(self.timestamps)

    def halves(self, compression: Compression, level: int | None) -> Split:
        """The same records in two batches, for a broker that finds this one too large."""
        assert self.data is not None
        records = read_records(self.data)
        middle = len(records) // 2
        made = []
        for part in (records[:middle], records[middle:]):
            batch = Batch(self.partition, BatchBuilder(compression=compression, level=level))
            for record in part:
                batch.builder.append(record.timestamp, record.key, record.value, record.headers)
                batch.timestamps.append(record.timestamp)
            made.append(batch)
        return Split(made[0], made[1])


def _mark_retrieved(future: asyncio.Future[Placed | Split]) -> None:
    if not future.cancelled():
        future.exception()


class Delivery:
    """What ``send`` gives: await it for the record's place, or for the error."""

    __slots__ = ("_index", "batch")

    def __init__(self, batch: Batch, index: int) -> None:
        self.batch = batch
        self._index = index

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        batch, index = self.batch, self._index
        while True:
            # Shielded: one impatient waiter must not cancel the batch of the others.
            outcome = yield from asyncio.shield(batch.done).__await__()
            if isinstance(outcome, Placed):
                break
            if index < outcome.first.count:
                batch = outcome.first
            else:
                batch, index = outcome.second, index - outcome.first.count
        topic, partition = batch.partition
        return RecordMetadata(
            topic,
            partition,
            outcome.base_offset + index if outcome.base_offset >= 0 else -1,
            outcome.append_time if outcome.append_time >= 0 else batch.timestamps[index],
        )


class PartitionQueue:
    """The batches of one partition, oldest first; the last one may still be open."""

    __slots__ = (
        "_batch_size",
        "_compression",
        "_level",
        "_on_close",
        "_open",
        "_partition",
        "_ready",
    )

    def __init__(
        self,
        partition: TopicPartition,
        *,
        batch_size: int,
        compression: Compression,
        level: int | None,
        on_close: Callable[[str, int], object],
    ) -> None:
        self._partition = partition
        self._on_close = on_close
        self._batch_size = batch_size
        self._compression = compression
        self._level = level
        self._open: Batch | None = None
        self._ready: deque[Batch] = deque()

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> tuple[Delivery, bool]:
        """Add a record; the flag says that a batch became ready to go without waiting longer."""
        size = record_size_bound(key, value, headers)
        batch = self._open
        closed = False
        if batch is not None and batch.builder.size + size > self._batch_size:
            closed = self.close_open()
            batch = None
        if batch is None:
            batch = self._open = self._new_batch()
        index = batch.builder.append(timestamp, key, value, headers)
        batch.timestamps.append(timestamp)
        if batch.builder.size >= self._batch_size:
            closed = self.close_open()
        return Delivery(batch, index), closed

    def close_open(self) -> bool:
        """Let the open batch go; whether there was one."""
        if self._open is None:
            return False
        self._ready.append(self._open)
        self._open = None
        self._on_close(*self._partition)
        return True

    def next_ready(self) -> Batch | None:
        return self._ready.popleft() if self._ready else None

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    @property
    def is_empty(self) -> bool:
        return self._open is None and not self._ready

    def fail_all(self, error: KafkaError) -> None:
        """Nothing of this will be sent any more."""
        self.close_open()
        while self._ready:
            self._ready.popleft().done.set_exception(error)

    def _new_batch(self) -> Batch:
        return Batch(
            self._partition, BatchBuilder(compression=self._compression, level=self._level)
        )

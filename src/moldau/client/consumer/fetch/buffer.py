"""What was fetched and not handed out yet: bounded, and fair to partitions.

Each ``take`` begins with another partition than the last, so one with much to read does not keep
the others waiting. ``room`` says how much more may be fetched; a partition is asked for more as
long as less than one full answer of its is waiting.

Records are added by the event loop and may be taken by another thread (``Consumer.poll``): hence
the lock, which nobody holds for longer than it takes to decode what one poll gives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from moldau.client.consumer.fetch.fetched import Convert, FetchedRecords
from moldau.client.consumer.positions import Position
from moldau.client.user_threads import new_lock
from moldau.errors import KafkaError
from moldau.model import TopicPartition
from moldau.records.consumer_record import ConsumerRecord
from moldau.records.reader import RecordColumns

Deliverable = Callable[[TopicPartition], bool]
Consumed = Callable[[TopicPartition, Position], None]


class FetchBuffer:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._waiting: dict[TopicPartition, deque[FetchedRecords]] = {}
        """In the order in which partitions are served."""
        self._sizes: dict[TopicPartition, int] = {}
        self._lock = new_lock()
        self._failed: TopicPartition | None = None
        """Its failure was kept back for the records before it, and is raised next."""
        self.size = 0
        self.dropped: Callable[[TopicPartition], object] = lambda _: None
        """Told of every partition whose records are void from here on."""

    @property
    def room(self) -> int:
        """Bytes that may still be fetched; not negative."""
        return max(0, self._max_bytes - self.size)

    def size_of(self, partition: TopicPartition) -> int:
        return self._sizes.get(partition, 0)

    def add(self, fetched: FetchedRecords) -> None:
        with self._lock:
            self._waiting.setdefault(fetched.partition, deque()).append(fetched)
            self._count(fetched.partition, fetched.size)

    def drop(self, partition: TopicPartition) -> None:
        """After a jump, or when the partition is somebody else's now."""
        with self._lock:
            for fetched in self._waiting.pop(partition, ()):
                self._count(partition, -fetched.size)
        self.dropped(partition)

    def take(
        self,
        limit: int,
        deliverable: Deliverable,
        consumed: Consumed,
        convert: Convert | None = None,
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Up to that many records of deliverable partitions; tells ``consumed`` the positions.

        A failure is raised only if nothing was taken before it; else it comes with the next call.
        """
        with self._lock:
            return self._take(limit, deliverable, consumed, convert)

    def _take(
        self,
        limit: int,
        deliverable: Deliverable,
        consumed: Consumed,
        convert: Convert | None,
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        if self._failed is not None and self._failed in self._waiting:
            self._move_to_front(self._failed)
        self._failed = None
        taken: dict[TopicPartition, list[ConsumerRecord]] = {}
        left = limit
        for partition in list(self._waiting):
            if not deliverable(partition):
                continue
            records: list[ConsumerRecord] = []
            try:
                self._take_from(partition, left, records, consumed, convert)
            except KafkaError:
                if not taken and not records:
                    raise
                self._failed = partition
            if records:
                taken[partition] = records
                left -= len(records)
            if left <= 0 or self._failed is not None:
                break
        return taken

    def take_columns(
        self, deliverable: Deliverable, consumed: Consumed, limit: int
    ) -> dict[TopicPartition, RecordColumns]:
        """Whole batches until there are that many records."""
        with self._lock:
            return self._take_columns(deliverable, consumed, limit)

    def _take_columns(
        self, deliverable: Deliverable, consumed: Consumed, limit: int
    ) -> dict[TopicPartition, RecordColumns]:
        taken: dict[TopicPartition, RecordColumns] = {}
        count = 0
        for partition in list(self._waiting):
            if not deliverable(partition):
                continue
            while count < limit and (fetched := self._first(partition)) is not None:
                columns = fetched.take_columns()
                consumed(partition, fetched.position)
                if columns is None:
                    self._finish_first(partition)
                elif columns.offsets:
                    count += len(columns.offsets)
                    if partition in taken:
                        taken[partition].extend(columns)
                    else:
                        taken[partition] = columns
            self._move_to_end(partition)
        return taken

    def _take_from(
        self,
        partition: TopicPartition,
        limit: int,
        records: list[ConsumerRecord],
        consumed: Consumed,
        convert: Convert | None,
    ) -> None:
        while len(records) < limit and (fetched := self._first(partition)) is not None:
            found = fetched.take(limit - len(records), convert)
            consumed(partition, fetched.position)
            if found:
                records += found
            else:
                self._finish_first(partition)
        self._move_to_end(partition)

    def _first(self, partition: TopicPartition) -> FetchedRecords | None:
        queue = self._waiting.get(partition)
        return queue[0] if queue else None

    def _finish_first(self, partition: TopicPartition) -> None:
        queue = self._waiting[partition]
        self._count(partition, -queue.popleft().size)
        if not queue:
            del self._waiting[partition]

    def _count(self, partition: TopicPartition, size: int) -> None:
        self.size += size
        of_partition = self._sizes.get(partition, 0) + size
        if of_partition:
            self._sizes[partition] = of_partition
        else:
            self._sizes.pop(partition, None)

    def _move_to_end(self, partition: TopicPartition) -> None:
        queue = self._waiting.pop(partition, None)
        if queue is not None:
            self._waiting[partition] = queue

    def _move_to_front(self, partition: TopicPartition) -> None:
        queue = self._waiting.pop(partition)
        self._waiting = {partition: queue, **self._waiting}

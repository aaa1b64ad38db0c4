"""What was fetched and not handed out yet: bounded, and fair to partitions.

Each ``take`` begins with another partition than the last, so one with much to read does not keep
the others waiting. ``room`` says how much more may be fetched; a partition is asked for more as
long as less than one full answer of its is waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from moldau.client.consumer.fetch.fetched import Convert, FetchedRecords
from moldau.client.consumer.positions import Position
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
        return sum(one.size for one in self._waiting.get(partition, ()))

    def add(self, fetched: FetchedRecords) -> None:
        self._waiting.setdefault(fetched.partition, deque()).append(fetched)
        self.size += fetched.size

    def drop(self, partition: TopicPartition) -> None:
        """After a jump, or when the partition is somebody else's now."""
        self.size -= sum(one.size for one in self._waiting.pop(partition, ()))
        self.dropped(partition)

    def has_any(self, deliverable: Deliverable) -> bool:
        return any(deliverable(partition) for partition in self._waiting)

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
        if self._failed is not None and self._failed in self._waiting:
            self._move_to_front(self._failed)
        self._failed = None
        taken: dict[TopicPartition, list[ConsumerRecord]] = {}
        left = limit
        for partition in [one for one in self._waiting if deliverable(one)]:
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
        taken: dict[TopicPartition, RecordColumns] = {}
        count = 0
        for partition in [one for one in self._waiting if deliverable(one)]:
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
        self.size -= queue.popleft().size
        if not queue:
            del self._waiting[partition]

    def _move_to_end(self, partition: TopicPartition) -> None:
        queue = self._waiting.pop(partition, None)
        if queue is not None:
            self._waiting[partition] = queue

    def _move_to_front(self, partition: TopicPartition) -> None:
        queue = self._waiting.pop(partition)
        self._waiting = {partition: queue, **self._waiting}

"""What was fetched and not handed out yet: bounded, and fair to partitions.

Each ``take`` begins with another partition than the last, so one with much to read does not keep
the others waiting. A partition is asked for more as long as less than one full answer of its is
waiting.

Records are added by the event loop and may be taken by another thread (``Consumer.poll``): hence
the lock, which nobody holds for longer than it takes to decode what one poll gives.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.client.consumer.fetch.fetched import Convert, FetchedRecords
from moldau.client.consumer.handover import Handover
from moldau.client.consumer.partition_state import BufferSpace, PartitionState
from moldau.errors import KafkaError
from moldau.model import TopicPartition
from moldau.records.consumer_record import ConsumerRecord
from moldau.records.reader import RecordColumns


class FetchBuffer:
    def __init__(self, space: BufferSpace, handover: Handover) -> None:
        self.is_read = False
        """Whether something was taken since somebody set this to False."""
        self._space = space
        self._handover = handover
        self._turns: dict[PartitionState, None] = {}
        """In the order in which partitions are served; those without records leave by and by."""
        self._failed: PartitionState | None = None
        """Its failure was kept back for the records before it, and is raised next."""

    def add(self, state: PartitionState, fetched: FetchedRecords, end: int) -> None:
        with self._space.lock:
            state.add(fetched, end)
            self._turns.setdefault(state)

    def take(
        self, limit: int, convert: Convert | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Up to that many records of deliverable partitions.

        A failure is raised only if nothing was taken before it; else it comes with the next call.
        """
        with self._space.lock:
            return self._take(limit, convert)

    def _take(
        self, limit: int, convert: Convert | None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        if self._failed is not None and self._failed in self._turns:
            self._turns = {self._failed: None, **self._turns}
        self._failed = None
        by_partition: dict[TopicPartition, list[ConsumerRecord]] = {}
        left = limit
        for state in self._in_turn():
            records: list[ConsumerRecord] = []
            try:
                state.take(records, left, convert)
            except KafkaError:
                if not by_partition and not records:
                    raise
                self._failed = state
            else:
                self._end_turn(state)
            if records:
                by_partition[state.partition] = records
                left -= len(records)
            if left <= 0 or self._failed is not None:
                break
        return by_partition

    def take_columns(self, limit: int) -> dict[TopicPartition, RecordColumns]:
        """Whole batches until there are that many records."""
        by_partition: dict[TopicPartition, RecordColumns] = {}
        count = 0
        with self._space.lock:
            for state in self._in_turn():
                while count < limit and (columns := state.take_columns()) is not None:
                    if not columns.offsets:
                        continue
                    count += len(columns.offsets)
                    if state.partition in by_partition:
                        by_partition[state.partition].extend(columns)
                    else:
                        by_partition[state.partition] = columns
                self._end_turn(state)
                if count >= limit:
                    break
        return by_partition

    def _in_turn(self) -> Iterator[PartitionState]:
        """Those that something can be taken from."""
        for state in list(self._turns):
            if not state.fetched:
                del self._turns[state]
            elif state.deliverable:
                self.is_read = True
                self._handover.takes_from(state)
                yield state

    def _end_turn(self, state: PartitionState) -> None:
        del self._turns[state]
        if state.fetched:
            self._turns[state] = None

"""Which record is handled next, which partitions pause, what may be committed: pure decisions.

A partition's *window* is what lies between its lowest unfinished record and the last one that was
read. A poll brings at most ``poll_size`` records, and a partition pauses when its window has no
room for another poll: so the window never outgrows ``queue_size``, which bounds both the memory and
what is seen again after a crash.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Final

from moldau.client.listener.finished import read_finished
from moldau.client.listener.work import Ordering, PartitionWork, Work
from moldau.model import OffsetAndMetadata, TopicPartition
from moldau.records.consumer_record import ConsumerRecord

logger: Final = logging.getLogger(__name__)


class Dispatcher:
    """The records of all assigned partitions. Time is handed in, in seconds."""

    def __init__(
        self,
        ordering: Ordering,
        concurrency: int,
        queue_size: int,
        *,
        whole_batches: bool = False,
        due_of: Callable[[ConsumerRecord], float] = lambda _: 0.0,
    ) -> None:
        """``due_of`` says when a record may be handled at the earliest (retry topics)."""
        self.running = 0
        self.poll_size = max(1, queue_size // 2)
        self._ordering = ordering
        self._concurrency = concurrency
        self._queue_size = queue_size
        self._whole_batches = whole_batches
        self._due_of = due_of
        self._partitions: dict[TopicPartition, PartitionWork] = {}
        self._turns: deque[PartitionWork] = deque()
        """Partitions in the order in which they may start their next record."""
        self._delayed: list[tuple[float, int, Work]] = []
        self._numbers = count()
        self._paused: set[TopicPartition] = set()
        self._committed: dict[TopicPartition, int] = {}

    # -- partitions come and go

    def assign(
        self,
        partitions: Iterable[TopicPartition],
        committed: Mapping[TopicPartition, OffsetAndMetadata | None] | None = None,
    ) -> None:
        """Take partitions; ``committed`` tells what earlier owners have finished ahead."""
        for partition in partitions:
            if partition in self._partitions:
                continue
            finished = read_finished((committed or {}).get(partition))
            work = PartitionWork(partition, self._ordering, finished)
            self._partitions[partition] = work
            self._turns.append(work)

    def revoke(self, partitions: Collection[TopicPartition]) -> list[PartitionWork]:
        """Begin nothing more of these; returns them, for what still runs and what to commit."""
        gone = []
        for partition in partitions:
            work = self._partitions.pop(partition, None)
            if work is not None:
                work.close()
                self._turns.remove(work)
                gone.append(work)
            self._paused.discard(partition)
            self._committed.pop(partition, None)
        return gone

    def close(self) -> list[PartitionWork]:
        """Begin nothing more at all."""
        for work in self._partitions.values():
            work.close()
        return list(self._partitions.values())

    # -- records come in, are handled, and leave

    def add(self, partition: TopicPartition, records: Sequence[ConsumerRecord], now: float) -> None:
        """The records of one poll. Those of partitions that are gone are not ours to handle."""
        work = self._partitions.get(partition)
        if work is None or work.closed:
            return
        if records and records[0].offset < work.tracker.next_offset:
            self._go_back(work, records[0].offset)
        for record in records:
            head = work.enter(record, self._due_of(record))
            if head is not None:
                self._make_ready(head, now)
        work.tracker.end_batch()

    def _go_back(self, work: PartitionWork, offset: int) -> None:
        """The log goes on before what was read of it: its end was lost, and with it what was
        committed there.
        """
        last = work.tracker.next_offset - 1
        logger.warning(
            "%s goes on at offset %d, after %d: its end was lost", work.partition, offset, last
        )
        work.go_back(offset)
        self._committed.pop(work.partition, None)

    def next(self, now: float) -> Work | None:
        """The record to begin with, partitions taking turns; None if none may begin now."""
        self._wake_delayed(now)
        if self.running >= self._concurrency:
            return None
        for _ in range(len(self._turns)):
            owner = self._turns[0]
            self._turns.rotate(-1)
            if owner.ready:
                work = owner.ready.popleft()
                work.running = True
                work.attempts += 1
                owner.running += 1
                self.running += 1
                return work
        return None

    def handled(self, work: Work, now: float) -> None:
        """The handler is through with a record: the next of its lane may begin."""
        self._stop_running(work)
        work.handled = True
        if not work.finished:
            work.owner.unacknowledged += 1
        following = work.owner.leave(work)
        if following is not None and not work.owner.closed:
            self._make_ready(following, now)

    def finished(self, work: Work) -> int:
        """Nothing more will happen to a record; returns by how many commits move ahead."""
        if work.finished:
            return 0
        work.finished = True
        if work.handled:
            work.owner.unacknowledged -= 1
        if work.lost:
            return 0
        tracker = work.owner.tracker
        if not self._whole_batches:
            return tracker.finished(work.record.offset)
        before = tracker.committable_batches
        tracker.finished(work.record.offset)
        return int(tracker.committable_batches is not before)

    def retry(self, work: Work, due: float, now: float) -> None:
        """Handle a record again later; its lane waits for it, its place at work is free."""
        if work.owner.closed:
            self.drop(work)
            return
        if work.lost:
            work.finished = True
            self.handled(work, now)
            return
        self._stop_running(work)
        work.due = due
        self._make_ready(work, now)

    def drop(self, work: Work) -> None:
        """Leave a record unfinished for good: nothing of its partition is begun any more."""
        assert work.owner.closed
        self._stop_running(work)
        work.owner.leave(work)

    def next_due(self) -> float | None:
        """When the next delayed record may begin."""
        while self._delayed and self._delayed[0][2].is_over:
            heappop(self._delayed)
        return self._delayed[0][0] if self._delayed else None

    # -- what the consumer is told

    def pauses(self) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Partitions to pause and partitions to resume since the last call."""
        full = {
            partition
            for partition, work in self._partitions.items()
            if work.tracker.window + self.poll_size > self._queue_size
        }
        pause, resume = sorted(full - self._paused), sorted(self._paused - full)
        self._paused = full
        return pause, resume

    @property
    def has_room_again(self) -> bool:
        """Whether a paused partition could be resumed."""
        return any(
            self._partitions[partition].tracker.window + self.poll_size <= self._queue_size
            for partition in self._paused
        )

    def offsets(
        self, leaving: Iterable[PartitionWork] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What may be committed and is not; of partitions that are leaving, whatever there is."""
        if leaving is not None:
            last = {work.partition: work.tracker.committable for work in leaving}
            return {partition: offset for partition, offset in last.items() if offset is not None}
        offsets = {}
        for partition, work in self._partitions.items():
            tracker, before = work.tracker, self._committed.get(partition, -1)
            if tracker.lowest_unfinished > before:
                committable = (
                    tracker.committable_batches if self._whole_batches else tracker.committable
                )
                if committable is not None and committable.offset > before:
                    offsets[partition] = committable
        return offsets

    def committed(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        for partition, committed in offsets.items():
            if partition in self._partitions:
                self._committed[partition] = committed.offset

    def _make_ready(self, work: Work, now: float) -> None:
        if work.due > now:
            heappush(self._delayed, (work.due, next(self._numbers), work))
        else:
            work.owner.ready.append(work)

    def _wake_delayed(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            work = heappop(self._delayed)[2]
            if not work.is_over:
                work.owner.ready.append(work)

    def _stop_running(self, work: Work) -> None:
        work.running = False
        work.owner.running -= 1
        self.running -= 1

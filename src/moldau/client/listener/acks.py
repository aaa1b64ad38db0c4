"""Which offset may be committed when records are finished in any order: the lowest unfinished one.

Pure state of one partition. Offsets may have gaps (compaction, transaction markers); what matters
is the order in which records were delivered.
"""

from __future__ import annotations

from collections import deque

from moldau.client.listener.finished import write_finished
from moldau.model import OffsetAndMetadata


class AckTracker:
    """Records of one partition between delivery and commit."""

    __slots__ = ("_batch_ends", "_batches", "_epoch", "_finished", "_next", "_pending", "_skip")

    def __init__(self, finished_before: frozenset[int] = frozenset()) -> None:
        """``finished_before`` are offsets that an earlier owner of the partition has finished."""
        self._skip = finished_before
        self._pending: deque[tuple[int, int]] = deque()
        """Offset and leader epoch of the lowest unfinished record and all delivered after it."""
        self._finished: set[int] = set()
        """Those of them that are finished already."""
        self._next = -1
        """The offset after the last delivered record."""
        self._epoch = -1
        """The leader epoch of the last record before the lowest unfinished one."""
        self._batch_ends: deque[int] = deque()
        self._batches: OffsetAndMetadata | None = None

    @property
    def window(self) -> int:
        """Delivered records that lie at or after the committable offset."""
        return len(self._pending)

    @property
    def next_offset(self) -> int:
        """The offset after the last delivered record, -1 before any delivery."""
        return self._next

    @property
    def unfinished(self) -> int:
        return len(self._pending) - len(self._finished)

    @property
    def lowest_unfinished(self) -> int:
        return self._pending[0][0] if self._pending else self._next

    @property
    def committable(self) -> OffsetAndMetadata | None:
        """The lowest unfinished offset, and what is finished beyond; None before any delivery."""
        if self._next < 0:
            return None
        offset = self.lowest_unfinished
        return self._commit(offset, write_finished(offset, self._finished))

    @property
    def committable_batches(self) -> OffsetAndMetadata | None:
        """The end of the last batch that is finished as a whole, with all before it."""
        return self._batches

    def delivered(self, offset: int, leader_epoch: int = -1) -> bool:
        """Take a record in; False if it was finished before and must not be handled again."""
        if offset < self._next:
            raise ValueError(f"offset {offset} was delivered after offset {self._next - 1}")
        self._pending.append((offset, leader_epoch))
        self._next = offset + 1
        if offset in self._skip:
            self.finished(offset)
            return False
        return True

    def go_back(self, offset: int) -> None:
        """The log was cut off at this offset, which is next: what was delivered from it on is gone.

        What may be committed goes back with it.
        """
        self._pending = deque(entry for entry in self._pending if entry[0] < offset)
        self._finished = {finished for finished in self._finished if finished < offset}
        self._skip = frozenset(finished for finished in self._skip if finished < offset)
        self._next = offset
        self._batch_ends = deque(end for end in self._batch_ends if end < offset)
        if self._batches is not None and self._batches.offset > offset:
            self._batches = None
        self.end_batch()

    def end_batch(self) -> None:
        """What was delivered since the last call came together."""
        self._batch_ends.append(self._next)
        self._count_batches()

    def finished(self, offset: int) -> int:
        """Mark one record; returns by how many records the committable offset moved ahead."""
        self._finished.add(offset)
        before = len(self._pending)
        while self._pending and self._pending[0][0] in self._finished:
            done, self._epoch = self._pending.popleft()
            self._finished.remove(done)
        self._count_batches()
        return before - len(self._pending)

    def _count_batches(self) -> None:
        while self._batch_ends and self._batch_ends[0] <= self.lowest_unfinished:
            self._batches = self._commit(self._batch_ends.popleft(), "")

    def _commit(self, offset: int, metadata: str) -> OffsetAndMetadata:
        return OffsetAndMetadata(offset, metadata, None if self._epoch < 0 else self._epoch)

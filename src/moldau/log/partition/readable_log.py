"""Reading a partition's log: by offset, by timestamp, by epoch.

A read answers a place in a file, not data. Readers are never blocked: the segment list is replaced,
not changed, and a file lives as long as someone holds it.
"""

from __future__ import annotations

from bisect import bisect_right

from moldau.log.errors import OffsetOutOfRangeError
from moldau.log.partition.base_log import BaseLog
from moldau.log.partition.results import ActiveProducer, TimestampedOffset
from moldau.log.partition.time_lookup import find_largest_timestamp, find_timestamp
from moldau.log.segment.transaction_index import AbortedTransaction
from moldau.machine import FileSlice


class ReadableLog(BaseLog):
    """What fetches and offset lookups need."""

    __slots__ = ()

    def read(
        self, offset: int, max_bytes: int, upper_offset: int, min_one_batch: bool = True
    ) -> FileSlice | None:
        """Where the batches from ``offset`` on lie, ending before ``upper_offset``.

        None if there is nothing to read yet. If the first batch is larger than ``max_bytes``, it
        comes whole with ``min_one_batch`` and not at all without. Raises OFFSET_OUT_OF_RANGE.
        """
        if self._failure is not None:
            self._check_online()
        end = self.log_end_offset
        if offset > end or offset < self.log_start_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {self.topic_partition} is not in "
                f"[{self.log_start_offset}, {end}]"
            )
        if offset >= upper_offset or offset == end:
            return None
        offsets = self._tail_offsets
        if offsets and offset >= offsets[0]:
            return self._read_tail(offset, max_bytes, upper_offset, min_one_batch)
        try:
            return self._read_segments(offset, max_bytes, upper_offset, min_one_batch)
        except OSError as error:
            raise self._storage_error("read", error) from error

    def _read_tail(
        self, offset: int, max_bytes: int, upper_offset: int, min_one_batch: bool
    ) -> FileSlice | None:
        """Read near the end of the active segment: all positions are known."""
        offsets, positions = self._tail_offsets, self._tail_positions
        segment = self._active
        batch = bisect_right(offsets, offset) - 1
        position = positions[batch]
        limit = segment.size
        if upper_offset < self.log_end_offset:
            limit = positions[bisect_right(offsets, upper_offset) - 1]
        size = limit - position
        if size > max_bytes:
            following = batch + 1
            after = positions[following] if following < len(positions) else segment.size
            size = max(max_bytes, after - position)
            if size > max_bytes and not min_one_batch:
                return None
        if size <= 0:
            return None
        return FileSlice(segment.file, position, size)

    def _read_segments(
        self, offset: int, max_bytes: int, upper_offset: int, min_one_batch: bool
    ) -> FileSlice | None:
        segments, bases = self._segments, self._bases
        for number in range(self._number_of(offset), len(segments)):
            segment = segments[number]
            if segment.base_offset >= upper_offset:
                return None
            found = segment.find(offset)
            if found is None:
                continue  # compaction left nothing at or after the offset in this one
            limit = segment.size
            ends_at = bases[number + 1] if number + 1 < len(bases) else self.log_end_offset
            if upper_offset < ends_at:
                upper = segment.find(upper_offset)
                limit = segment.size if upper is None else upper.position
            available = limit - found.position
            size = min(available, max_bytes)
            if size < found.size <= available:
                if not min_one_batch:
                    return None
                size = found.size
            if size <= 0:
                return None
            return FileSlice(segment.file, found.position, size)
        return None

    def last_stable_offset(self, high_watermark: int) -> int:
        """The end of what a reader of committed data may see."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest open transaction starts, or None."""
        return self.producers.first_undecided_offset

    def aborted_transactions(self, start: int, upper: int) -> list[tuple[int, int]]:
        """Producer and first offset of the aborted transactions in [start, upper)."""
        self._check_online()
        found: list[AbortedTransaction] = []
        for segment in self._segments[self._number_of(start) :]:
            if segment.txn_index.collect(start, upper, found):
                break
        return [(transaction.producer_id, transaction.first_offset) for transaction in found]

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record at or after ``timestamp``."""
        self._check_online()
        try:
            return find_timestamp(self._segments, timestamp, self.log_start_offset)
        except OSError as error:
            raise self._storage_error("read", error) from error

    def max_timestamp_offset(self) -> TimestampedOffset | None:
        """The first record with the largest timestamp in the log."""
        self._check_online()
        try:
            return find_largest_timestamp(self._segments)
        except OSError as error:
            raise self._storage_error("read", error) from error

    def earliest(self) -> tuple[int, int]:
        """Log start offset and the epoch in force there (-1 if unknown)."""
        epoch = self.leader_epochs.epoch_for_offset(self.log_start_offset)
        return self.log_start_offset, -1 if epoch is None else epoch

    def active_producers(self) -> list[ActiveProducer]:
        return [
            ActiveProducer(
                entry.producer_id,
                entry.epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.txn_first_offset,
            )
            for entry in self.producers.producers.values()
        ]

    # Leader epochs -----------------------------------------------------------------------------

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to ``epoch`` in this log and where it ends; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

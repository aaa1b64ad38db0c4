"""Compacting one partition: the keys of its dirty part are mapped, then segments are rewritten.

Only files are read and written, through a ``Disk``: a cleaner process runs this on the machine's,
simulations on theirs (see ``work``). Nothing that the log uses is touched: each group of segments
ends as one ``.cleaned`` segment, and putting it in their place is the broker's part (see ``swap``).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from moldau.log.cleaner.batch_filter import BatchFilter
from moldau.log.cleaner.cleaned_segment import CleanedSegment
from moldau.log.cleaner.grouping import SegmentSize, group_segments
from moldau.log.cleaner.messages import CleanStats, CleanTask, GroupCleaned, SourceSegment
from moldau.log.cleaner.transactions import CleanedTransactions
from moldau.log.files.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, file_name
from moldau.log.segment.batches import iter_file_batches
from moldau.log.segment.transaction_index import AbortedTransaction
from moldau.machine.disk import Disk
from moldau.records.batch import CONTROL_FLAG, BatchHeader
from moldau.records.compaction import BYTES_PER_KEY, KeyMap
from moldau.records.errors import CorruptRecordError
from moldau.records.reader import read_payload

_MAX_MAP_BYTES: Final = 2**31 - 1
_SPARE_SLOTS: Final = 16


class Compaction:
    """One cleaning of one partition."""

    def __init__(self, disk: Disk, task: CleanTask) -> None:
        self._disk = disk
        self._task = task
        self._aborted = [AbortedTransaction(*fields) for fields in task.aborted]
        self.stats = CleanStats()
        self.end_offset = task.first_dirty_offset

    def run(self) -> Iterator[GroupCleaned | int]:
        """Clean group after group; yields each when it is durable, and in between how many bytes
        were just read or written.

        Raises CorruptRecordError or InvalidRecordError if the log is damaged, OSError if the disk
        fails or files are gone.
        """
        task = self._task
        keys = yield from self._map_keys()
        self.end_offset = keys.latest_offset + 1
        batch_filter = BatchFilter(
            keys,
            transactions := CleanedTransactions(self._aborted),
            task.last_records,
            upper_bound=task.first_uncleanable_offset,
            now_ms=task.now_ms,
            delete_retention_ms=task.delete_retention_ms,
            stats=self.stats,
        )
        for group in self._groups():
            yield (yield from self._clean(group, batch_filter, transactions))

    # The keys of the dirty part ----------------------------------------------------------------

    def _map_keys(self) -> Generator[int, None, KeyMap]:
        task = self._task
        start, end = task.first_dirty_offset, task.first_uncleanable_offset
        slots = min(task.dedupe_buffer_bytes, _MAX_MAP_BYTES) // BYTES_PER_KEY
        # Every offset in between may be another key, so more room is never needed.
        needed = int((end - start) / task.load_factor) + _SPARE_SLOTS
        slots = min(slots, needed)
        keys = KeyMap(slots, int(slots * task.load_factor))
        keys.latest_offset = start - 1
        transactions = CleanedTransactions(
            [transaction for transaction in self._aborted if transaction.last_offset >= start]
        )
        segments = task.segments
        for number, segment in enumerate(segments):
            next_base = segments[number + 1].base_offset if number + 1 < len(segments) else end
            if next_base <= start:
                continue
            if not (yield from self._map_segment(segment, keys, transactions)):
                break
            keys.latest_offset = next_base - 1
        self.stats.keys = keys.size
        self.stats.buffer_utilization = keys.size / max(slots, 1)
        return keys

    def _map_segment(
        self, segment: SourceSegment, keys: KeyMap, transactions: CleanedTransactions
    ) -> Generator[int, None, bool]:
        """Map the keys of a segment; returns False if the map got full."""
        start = self._task.first_dirty_offset
        for header, batch in self._batches(segment):
            yield header.size
            if header.last_offset < start:
                continue
            obsolete = transactions.can_discard(header, batch)
            if not obsolete and not header.attributes & CONTROL_FLAG and header.records_count:
                payload = read_payload(batch, 0, header)
                if not keys.put_all(payload, header.records_count, header.base_offset, start):
                    return False
            keys.latest_offset = header.last_offset
        return True

    # The segments, anew ------------------------------------------------------------------------

    def _groups(self) -> list[list[SegmentSize]]:
        task = self._task
        return group_segments(
            [
                SegmentSize(
                    segment.base_offset,
                    segment.size,
                    self._size(segment.base_offset, INDEX_SUFFIX),
                    self._size(segment.base_offset, TIME_INDEX_SUFFIX),
                )
                for segment in task.segments
                if segment.base_offset < self.end_offset
            ],
            segment_bytes=task.segment_bytes,
            index_bytes=task.segment_index_bytes,
            first_uncleanable_offset=task.first_uncleanable_offset,
        )

    def _size(self, base_offset: int, suffix: str) -> int:
        path = f"{self._task.directory}/{file_name(base_offset, suffix)}"
        return self._disk.size(path) if self._disk.exists(path) else 0

    def _clean(
        self,
        group: list[SegmentSize],
        batch_filter: BatchFilter,
        transactions: CleanedTransactions,
    ) -> Generator[int, None, GroupCleaned]:
        task, stats = self._task, self.stats
        cleaned = CleanedSegment(
            self._disk,
            task.directory,
            group[0].base_offset,
            index_interval=task.index_interval_bytes,
            index_bytes=task.segment_index_bytes,
            created_ms=task.now_ms,
        )
        cleaned.begin()
        transactions.on_retained = cleaned.add_aborted
        for segment in group:
            for header, batch in self._batches(SourceSegment(segment.base_offset, segment.size)):
                stats.bytes_read += header.size
                yield header.size
                kept = batch_filter.filter(header, batch)
                if kept is not None:
                    data, max_timestamp = kept
                    cleaned.add(data, header.last_offset, max_timestamp)
                    stats.bytes_written += len(data)
                    yield len(data)
        cleaned.finish()
        return GroupCleaned(
            group[0].base_offset, cleaned.size, [segment.base_offset for segment in group]
        )

    def _batches(self, segment: SourceSegment) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yields every batch of a segment; CorruptRecordError if one of them is damaged."""
        path = f"{self._task.directory}/{file_name(segment.base_offset, LOG_SUFFIX)}"
        file = self._disk.open(path)
        end = 0
        try:
            for position, header, batch in iter_file_batches(
                file, 0, segment.size, self._task.read_bytes
            ):
                yield header, batch
                end = position + header.size
        finally:
            file.close()
        if end != segment.size:
            raise CorruptRecordError(f"{path}: the batch at position {end} is damaged")

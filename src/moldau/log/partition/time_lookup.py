"""Finding records by their timestamps: the time index narrows, the batch's records decide.

A batch may decompress to so much that the event loop has no time for it. Then LongSearchError says
what has to be done elsewhere, and the look-up is begun again with what came of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.log.errors import LongCheckError
from moldau.log.partition.budget import AT_ONCE, MIB, PART_COST
from moldau.log.partition.results import TimestampedOffset
from moldau.log.segment.batches import iter_file_headers
from moldau.log.segment.segment import Segment
from moldau.records.batch import HEADER_SIZE, LOG_APPEND_TIME, BatchHeader
from moldau.records.compression import Compression, open_stream
from moldau.records.errors import DecompressionLimitError
from moldau.records.reader import read_batch_header
from moldau.records.walk import MAX_LONG, MIN_LONG, RecordWalk

_LONGEST: Final = 1024 * MIB
"""More than any batch that this broker has taken comes to; others may have written the log."""


class LongSearchError(LongCheckError):
    """A batch takes too long to look at on the event loop."""

    def __init__(self, search: BatchSearch) -> None:
        super().__init__()
        self.search = search


class BatchSearch:
    """The first record of a batch from an offset and a time on."""

    __slots__ = ("_batch", "_timestamp", "header", "start_offset")

    def __init__(
        self, batch: bytes, header: BatchHeader, timestamp: int, start_offset: int
    ) -> None:
        self._batch = batch
        self.header = header
        self._timestamp = timestamp
        self.start_offset = start_offset

    def run(self, limit: int = _LONGEST, part_cost: int = 0) -> TimestampedOffset | None:
        """Returns the record, if there is one; DecompressionLimitError if that takes more bytes,
        with what parts count.
        """
        batch, header = self._batch, self.header
        read_batch_header(batch)
        walk = RecordWalk(header.records_count)
        walk.search(
            _in_64_bits(self._timestamp - header.base_timestamp),
            max(self.start_offset - header.base_offset, 0),
        )
        payload = memoryview(batch)[HEADER_SIZE:]
        if header.compression == Compression.NONE:
            walk.over(payload)
        else:
            walk.over_stream(open_stream(header.compression, payload, limit, part_cost))
        if not walk.found:
            return None
        return TimestampedOffset(
            header.base_timestamp + walk.found_time,
            header.base_offset + walk.found_offset,
            header.partition_leader_epoch,
        )


class TimeLookup:
    """One look-up, with the searches that were made elsewhere for it."""

    def __init__(self) -> None:
        self._known: dict[tuple[BatchHeader, int], TimestampedOffset | None] = {}
        """By batch and first offset: records may be deleted while a search waits for its thread."""

    def finish(self, search: BatchSearch) -> None:
        """Search in a thread, however long it takes."""
        self._known[search.header, search.start_offset] = search.run()

    def find_timestamp(
        self, segments: Sequence[Segment], timestamp: int, start_offset: int
    ) -> TimestampedOffset | None:
        """Returns the first record from ``start_offset`` on whose timestamp is at least
        ``timestamp``.
        """
        for segment in segments:
            if segment.size and segment.max_timestamp.timestamp >= timestamp:
                record = self._find_in_segment(segment, timestamp, start_offset)
                if record is not None:
                    return record
        return None

    def find_largest_timestamp(self, segments: Sequence[Segment]) -> TimestampedOffset | None:
        """Returns the first record with the largest timestamp of all; without any timestamps the
        first.
        """
        best: Segment | None = None
        for segment in segments:
            if segment.size and (
                best is None or segment.max_timestamp.timestamp > best.max_timestamp.timestamp
            ):
                best = segment
        if best is None:
            return None
        largest, offset = best.max_timestamp
        batch = best.find(offset)
        if batch is None:
            return None
        for at, header in iter_file_headers(best.file, batch.position, best.size):
            if header.max_timestamp == largest:
                return self._find_in_batch(best, at, header, largest, header.base_offset)
        return None

    def _find_in_segment(
        self, segment: Segment, timestamp: int, start_offset: int
    ) -> TimestampedOffset | None:
        # All timestamps up to the entry's offset are at most the entry's, hence below the target,
        # unless they are equal to it: then that batch itself may be the answer.
        offset = max(segment.time_index.lookup(timestamp - 1).offset, start_offset)
        position = segment.offset_index.lookup(offset).position
        for at, header in iter_file_headers(segment.file, position, segment.size):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                record = self._find_in_batch(segment, at, header, timestamp, start_offset)
                if record is not None:
                    return record
        return None

    def _find_in_batch(
        self,
        segment: Segment,
        position: int,
        header: BatchHeader,
        timestamp: int,
        start_offset: int,
    ) -> TimestampedOffset | None:
        if header.timestamp_type == LOG_APPEND_TIME:
            offset = max(header.base_offset, start_offset)
            return TimestampedOffset(header.max_timestamp, offset, header.partition_leader_epoch)
        if (header, start_offset) in self._known:
            return self._known[header, start_offset]
        batch = segment.file.pread(header.size, position)
        search = BatchSearch(batch, header, timestamp, start_offset)
        try:
            return search.run(AT_ONCE, PART_COST)
        except DecompressionLimitError:
            raise LongSearchError(search) from None


def _in_64_bits(number: int) -> int:
    return min(max(number, MIN_LONG), MAX_LONG)

"""Finding records by their timestamps: the time index narrows, the batch's records decide."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.log.partition.results import TimestampedOffset
from moldau.log.segment.batches import iter_file_headers
from moldau.log.segment.segment import Segment
from moldau.records.batch import LOG_APPEND_TIME, BatchHeader
from moldau.records.reader import read_columns


def find_timestamp(
    segments: Sequence[Segment], timestamp: int, start_offset: int
) -> TimestampedOffset | None:
    """Returns the first record from ``start_offset`` on whose timestamp is at least
    ``timestamp``.
    """
    for segment in segments:
        if segment.size and segment.max_timestamp.timestamp >= timestamp:
            record = _find_in_segment(segment, timestamp, start_offset)
            if record is not None:
                return record
    return None


def _find_in_segment(
    segment: Segment, timestamp: int, start_offset: int
) -> TimestampedOffset | None:
    # All timestamps up to the entry's offset are at most the entry's, hence below the target,
    # unless they are equal to it: then that batch itself may be the answer.
    offset = max(segment.time_index.lookup(timestamp - 1).offset, start_offset)
    position = segment.offset_index.lookup(offset).position
    for at, header in iter_file_headers(segment.file, position, segment.size):
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            record = _find_in_batch(segment, at, header, timestamp, start_offset)
            if record is not None:
                return record
    return None


def _find_in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampedOffset | None:
    epoch = header.partition_leader_epoch
    if header.timestamp_type == LOG_APPEND_TIME:
        offset = max(header.base_offset, start_offset)
        return TimestampedOffset(header.max_timestamp, offset, epoch)
    columns = read_columns(segment.file.pread(header.size, position))
    for offset, time in zip(columns.offsets, columns.timestamps, strict=True):
        if time >= timestamp and offset >= start_offset:
            return TimestampedOffset(time, offset, epoch)
    return None


def find_largest_timestamp(segments: Sequence[Segment]) -> TimestampedOffset | None:
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
            return _find_in_batch(best, at, header, largest, header.base_offset)
    return None

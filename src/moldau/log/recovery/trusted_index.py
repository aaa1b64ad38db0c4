"""Which part of an index can be believed after a crash, so that recovery need not start at zero.

A flush makes index entries durable together with the data they point to. So the entries below the
recovery point are good, if the file still looks like an index there; the batch at the last of them
is read and checked to be sure. Everything else is rebuilt.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.log.files.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from moldau.log.segment import offset_index, time_index
from moldau.log.segment.batches import iter_file_batches
from moldau.log.segment.offset_index import OffsetIndex
from moldau.log.segment.segment import Segment
from moldau.log.segment.time_index import TimeIndex
from moldau.machine.disk import Disk
from moldau.records.batch import BatchHeader


class TrustedStart(NamedTuple):
    """Where to begin checking: a batch known to be good, and the indexes up to it."""

    position: int
    offset: int
    offset_index: OffsetIndex
    time_index: TimeIndex


def find_trusted_start(
    disk: Disk, segment: Segment, recovery_point: int, index_bytes: int
) -> TrustedStart | None:
    """Returns the last indexed batch below the recovery point, or None to start at the
    beginning.
    """
    if recovery_point <= segment.base_offset or segment.size == 0:
        return None
    try:
        offsets = disk.read(segment.path(INDEX_SUFFIX))
        times = disk.read(segment.path(TIME_INDEX_SUFFIX))
    except FileNotFoundError:
        return None
    count, last = _good_offset_entries(offsets, segment, recovery_point)
    if count == 0:
        return None
    header = _batch_at(segment, last[1])
    if header is None or not segment.base_offset <= header.base_offset <= last[0] + 1:
        return None
    time_count, largest = _good_time_entries(times, segment, last[0])
    if header.max_timestamp > largest:
        return None
    by_offset = OffsetIndex(disk, segment.path(INDEX_SUFFIX), segment.base_offset, index_bytes)
    by_offset.load_prefix(offsets, count)
    by_time = TimeIndex(disk, segment.path(TIME_INDEX_SUFFIX), segment.base_offset, index_bytes)
    by_time.load_prefix(times, time_count)
    return TrustedStart(last[1], header.base_offset, by_offset, by_time)


def _good_offset_entries(
    data: bytes, segment: Segment, recovery_point: int
) -> tuple[int, tuple[int, int]]:
    limit = recovery_point - segment.base_offset
    size = segment.size
    count = position = 0
    relative = -1
    whole = len(data) - len(data) % offset_index.ENTRY_SIZE
    for next_relative, next_position in offset_index.ENTRY.iter_unpack(data[:whole]):
        if not (relative < next_relative < limit and position < next_position < size):
            break
        relative, position = next_relative, next_position
        count += 1
    return count, (segment.base_offset + relative, position)


def _good_time_entries(data: bytes, segment: Segment, last_offset: int) -> tuple[int, int]:
    limit = last_offset - segment.base_offset
    count = relative = 0
    timestamp = -1
    whole = len(data) - len(data) % time_index.ENTRY_SIZE
    for next_timestamp, next_relative in time_index.ENTRY.iter_unpack(data[:whole]):
        if not (next_timestamp > timestamp and relative <= next_relative <= limit):
            break
        timestamp, relative = next_timestamp, next_relative
        count += 1
    return count, timestamp


def _batch_at(segment: Segment, position: int) -> BatchHeader | None:
    for _, header, _ in iter_file_batches(segment.file, position, segment.size):
        return header
    return None

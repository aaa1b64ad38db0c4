"""Copying batches from the log that is served to the one that will replace it.

Runs in worker threads: until it takes over, nobody but its move touches a future log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from moldau.config.values.topic import TopicConfig
from moldau.log.partition.log import PartitionLog
from moldau.machine import FileSlice
from moldau.records.batch import iter_headers

_PIECE_BYTES: Final = 65_536
"""What is appended at once, and so what an index entry covers."""
_LARGEST_SEGMENT: Final = 2**31 - 1
_LONG_MS: Final = 2**62


def while_copied(config: TopicConfig) -> TopicConfig:
    """Settings of a future log: its segments begin where those of the original do."""
    return replace(
        config,
        segment_bytes=_LARGEST_SEGMENT,
        segment_ms=_LONG_MS,
        segment_jitter_ms=0,
        preallocate=False,
    )


def copy_slice(batches: FileSlice, future: PartitionLog, now_ms: int, *, new_segment: bool) -> int:
    """Append batches of the original to the future log; returns their size.

    Every CRC is checked on the way. Raises KafkaError if the data is damaged or the disk refuses.
    """
    records = memoryview(bytearray(batches.read()))
    if new_segment and future.segments[-1].size:
        future.roll(now_ms)
    start = end = 0
    for position, header in iter_headers(records):
        if position == 0 and future.size == 0 and header.base_offset < future.log_end_offset:
            # The log starts in the middle of a batch. (In the gaps of a compacted log it stays at
            # its start: readers there are not out of range.)
            future.truncate_fully_and_start_at(header.base_offset, now_ms)
        if position + header.size - start > _PIECE_BYTES and end > start:
            future.append_as_follower(records[start:end], now_ms)
            start = end
        end = position + header.size
    if end > start:
        future.append_as_follower(records[start:end], now_ms)
    return end

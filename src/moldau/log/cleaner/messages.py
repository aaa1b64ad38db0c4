"""What a broker and its cleaner processes say to each other: a task in, what became of it out.

The broker hands in everything it knows (producers, aborted transactions, time), so that the cleaner
needs nothing but the segment files. Both sides run the same release, so the messages have no
versions.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class SourceSegment(msgspec.Struct, frozen=True):
    base_offset: int
    size: int
    """Bytes of batches in the file; it does not change any more."""


class LastRecord(msgspec.Struct, frozen=True):
    """Where the state of an active producer stands in the log."""

    epoch: int
    last_data_offset: int
    """-1 if the last thing seen of the producer is a transaction marker."""


class CleanTask(msgspec.Struct, frozen=True, kw_only=True):
    """Compact one partition."""

    partition: str
    """For messages to people."""
    directory: str
    segments: list[SourceSegment]
    """From the start of the log up to the first uncleanable offset."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    aborted: list[tuple[int, int, int, int]] = []
    """The aborted transactions with data in the segments, as the transaction index has them."""
    last_records: dict[int, LastRecord] = {}
    dedupe_buffer_bytes: int
    load_factor: float
    read_bytes: int
    max_bytes_per_second: float


class Progress(msgspec.Struct, frozen=True, tag=True):
    """Still at work."""


class GroupCleaned(msgspec.Struct, frozen=True, tag=True):
    """Some segments have been rewritten into one, durable under its ``.cleaned`` names."""

    base_offset: int
    size: int
    replaces: list[int]
    """The base offsets of the segments it was made of."""


class CleanStats(msgspec.Struct):
    """What a cleaning read and wrote."""

    keys: int = 0
    buffer_utilization: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0


class CleanDone(msgspec.Struct, frozen=True, tag=True):
    """Every group has been cleaned; the log is clean up to ``end_offset``."""

    end_offset: int
    stats: CleanStats


class CleanFailed(msgspec.Struct, frozen=True, tag=True):
    reason: str
    corrupt: bool
    """The partition's own data is to blame: trying again will not help."""


Report: TypeAlias = Progress | GroupCleaned | CleanDone | CleanFailed

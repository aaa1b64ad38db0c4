"""One segment of a log: its file of batches and the three indexes beside it.

Files and indexes are opened when first needed. Sizes, positions and the rule for index entries are
Kafka's: an entry once more than ``index.interval.bytes`` went in since the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from moldau.config.values.topic import TopicConfig
from moldau.log.errors import CorruptIndexError
from moldau.log.files.names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from moldau.log.segment.batches import BatchPosition, find_batch, iter_file_headers
from moldau.log.segment.offset_index import NO_NEXT_ENTRY, OffsetIndex
from moldau.log.segment.time_index import TimeIndex, TimestampOffset
from moldau.log.segment.transaction_index import AbortedTransaction, TransactionIndex
from moldau.machine.disk import Buffer, Disk, File
from moldau.records.batch import HEADER_SIZE, BatchHeader, read_header
from moldau.records.errors import CorruptRecordError

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
UNKNOWN_TIMESTAMP: Final = -(2**63)


class Segment:
    """A part of the log from ``base_offset`` on."""

    __slots__ = (
        "_disk",
        "_file",
        "_index_bytes",
        "_indexed_size",
        "_max_timestamp",
        "_offset_index",
        "_time_index",
        "_txn_index",
        "base_offset",
        "bytes_since_index_entry",
        "created_ms",
        "directory",
        "full",
        "index_interval",
        "max_offset",
        "roll_after",
        "rolling_timestamp",
        "size",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        index_interval: int,
        index_bytes: int,
        created_ms: int,
        size: int = 0,
    ) -> None:
        self._disk = disk
        self._index_bytes = index_bytes
        self._file: File | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TransactionIndex | None = None
        self._max_timestamp: TimestampOffset | None = None
        self._indexed_size = -1
        self.directory = directory
        self.base_offset = base_offset
        self.max_offset = base_offset + MAX_RELATIVE_OFFSET
        self.index_interval = index_interval
        self.bytes_since_index_entry = 0
        self.created_ms = created_ms
        self.rolling_timestamp = UNKNOWN_TIMESTAMP
        """Timestamp of the first append, from which ``segment.ms`` counts."""
        self.roll_after = UNKNOWN_TIMESTAMP
        """An append with a later timestamp has to look whether the segment is too old for it."""
        self.size = size
        self.full = False
        """An index has no room left: the next append needs a new segment."""

    @classmethod
    def with_config(
        cls,
        disk: Disk,
        directory: str,
        base_offset: int,
        config: TopicConfig,
        *,
        created_ms: int,
        size: int = 0,
    ) -> Self:
        return cls(
            disk,
            directory,
            base_offset,
            index_interval=config.index_interval_bytes,
            index_bytes=config.segment_index_bytes,
            created_ms=created_ms,
            size=size,
        )

    def configure(self, config: TopicConfig) -> None:
        """The settings of the topic have changed; what is preallocated stays as it is."""
        self.index_interval = config.index_interval_bytes
        self.roll_after = UNKNOWN_TIMESTAMP

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{file_name(self.base_offset, suffix)}"

    # Files, opened on demand -------------------------------------------------------------------

    @property
    def file(self) -> File:
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self.path(LOG_SUFFIX))
            file.size = self.size
        return file

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def create(self, preallocate: int = 0) -> None:
        """Make an empty file for a new segment; leftovers of the same name are cut off."""
        file = self._disk.open(self.path(LOG_SUFFIX), create=True)
        if file.size:
            file.truncate(0)
        if preallocate:
            file.preallocate(preallocate)
        self._file = file
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            if self._disk.exists(self.path(suffix)):
                self._disk.remove(self.path(suffix))

    @property
    def offset_index(self) -> OffsetIndex:
        index = self._offset_index
        if index is None:
            index = self._new_offset_index()
            if self.size:
                self._load_or_rebuild(index)
                index = self._offset_index or index
            self._offset_index = index
        return index

    @property
    def time_index(self) -> TimeIndex:
        index = self._time_index
        if index is None:
            index = self._new_time_index()
            if self.size:
                try:
                    index.load()
                except (FileNotFoundError, CorruptIndexError):
                    self.rebuild_indexes()
                    index = self._time_index or index
            self._time_index = index
        return index

    @property
    def txn_index(self) -> TransactionIndex:
        index = self._txn_index
        if index is None:
            index = TransactionIndex(self._disk, self.path(TXN_INDEX_SUFFIX))
            if self.size and self._disk.exists(index.path):
                index.load(self.base_offset)
            self._txn_index = index
        return index

    def _new_offset_index(self) -> OffsetIndex:
        return OffsetIndex(self._disk, self.path(INDEX_SUFFIX), self.base_offset, self._index_bytes)

    def _new_time_index(self) -> TimeIndex:
        return TimeIndex(
            self._disk, self.path(TIME_INDEX_SUFFIX), self.base_offset, self._index_bytes
        )

    def _load_or_rebuild(self, index: OffsetIndex) -> None:
        try:
            index.load(self.size)
        except (FileNotFoundError, CorruptIndexError):
            self.rebuild_indexes()

    def reset_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Start both indexes afresh, whatever their files hold."""
        self._close_indexes()
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._disk.remove(self.path(suffix))
        self._offset_index = self._new_offset_index()
        self._time_index = self._new_time_index()
        self._max_timestamp = None
        self._indexed_size = -1
        self.bytes_since_index_entry = 0
        return self._offset_index, self._time_index

    def adopt_indexes(self, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        """Use indexes that recovery prepared."""
        self._close_indexes()
        self._offset_index = offset_index
        self._time_index = time_index
        self._max_timestamp = None
        self._indexed_size = -1

    # Appending -----------------------------------------------------------------------------------

    def append(
        self,
        data: Buffer,
        last_offset: int,
        max_timestamp: int,
        max_timestamp_offset: int,
        base_offset: int | None = None,
    ) -> None:
        """Write whole batches at the end and index them as the interval asks. ``base_offset``: of
        a single batch.
        """
        position = self.size
        if position == 0:
            self.rolling_timestamp = max_timestamp
            self._begin_indexes()
        (self._file or self.file).append(data)
        self.note_batches(
            position, len(data), last_offset, max_timestamp, max_timestamp_offset, base_offset
        )
        self.size = position + len(data)

    def append_batches(self, data: Buffer, batches: Sequence[BatchHeader]) -> None:
        """Write the batches with these headers, as one; each is indexed on its own."""
        position = self.size
        if position == 0:
            self.rolling_timestamp = batches[0].max_timestamp
            self._begin_indexes()
        self.file.append(data)
        for header in batches:
            last_offset = header.last_offset
            self.note_batches(
                position,
                header.size,
                last_offset,
                header.max_timestamp,
                last_offset,
                header.base_offset,
            )
            position += header.size
        self.size = position

    def _begin_indexes(self) -> None:
        """Start the indexes of an empty segment in memory; their files come later."""
        if self._offset_index is None:
            self._offset_index = self._new_offset_index()
        if self._time_index is None:
            self._time_index = self._new_time_index()

    def note_batches(
        self,
        position: int,
        size: int,
        last_offset: int,
        max_timestamp: int,
        max_timestamp_offset: int,
        base_offset: int | None = None,
    ) -> None:
        """Keep indexes and the largest timestamp in step with batches at ``position``."""
        # An index that turns out to be damaged is rebuilt when it is opened, so that comes first.
        largest = self._max_timestamp or self.max_timestamp
        due = self.bytes_since_index_entry > self.index_interval
        if due:
            offset_index, time_index = self.offset_index, self.time_index
            largest = self.max_timestamp
        if max_timestamp > largest[0]:
            self._max_timestamp = largest = TimestampOffset(max_timestamp, max_timestamp_offset)
        if due:
            offset_index.append(last_offset, position, base_offset)
            time_index.maybe_append(*largest)
            self.full = offset_index.is_full or time_index.is_full
            self.bytes_since_index_entry = size
        else:
            self.bytes_since_index_entry += size

    def undo_append(self, size: int, end_offset: int) -> None:
        """Cut off what a failed append may have left; index entries for it go too."""
        self.file.truncate(size)
        self.size = size
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.truncate_to(end_offset)
        self._max_timestamp = self._largest_after(self.time_index.last) if size else None

    # Time ----------------------------------------------------------------------------------------

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp in the segment and the last offset of its first batch with it."""
        largest = self._max_timestamp
        if largest is None:
            if self.size == 0:
                largest = TimestampOffset(-1, self.base_offset)
            else:
                # A closed segment has its largest timestamp as the last entry; an open one keeps
                # it in memory.
                largest = self.time_index.last
            self._max_timestamp = largest
        return largest

    def largest_timestamp(self) -> int:
        """Returns what retention counts from: the largest timestamp or, without any, the last
        append.

        An index that nobody has opened is closed again: retention looks at ten thousand of them.
        """
        unopened = self._time_index is None
        largest = self.max_timestamp.timestamp
        if unopened and self._time_index is not None and not self._time_index.dirty:
            self._time_index.close()
            self._time_index = None
        if largest < 0:
            largest = self._disk.modified_ms(self.path(LOG_SUFFIX))
        return largest

    def _largest_after(self, largest: TimestampOffset) -> TimestampOffset:
        position = self.offset_index.lookup(largest.offset).position
        for _, header in self.headers(position):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return largest

    def load_rolling_timestamp(self) -> int:
        """``rolling_timestamp``, read from the first batch if need be."""
        if self.rolling_timestamp == UNKNOWN_TIMESTAMP and self.size >= HEADER_SIZE:
            self.rolling_timestamp = read_header(self.file.pread(HEADER_SIZE, 0)).max_timestamp
        return self.rolling_timestamp

    # Reading -------------------------------------------------------------------------------------

    def find(self, offset: int) -> BatchPosition | None:
        """Returns the first batch whose last offset is at least ``offset``."""
        position, _ = self.offset_index.locate(offset)
        return find_batch(self.file, position, self.size, offset)

    def find_within(self, offset: int, room: int) -> tuple[int, int] | None:
        """As ``find``: position and size of the batch; if the index alone tells that it is no
        larger than ``room``, a size that it does not exceed.
        """
        position, end = self.offset_index.locate(offset)
        if end:
            bound = (self.size if end == NO_NEXT_ENTRY else end) - position
            if bound <= room:
                return position, bound
        found = find_batch(self.file, position, self.size, offset)
        return None if found is None else (found.position, found.size)

    def headers(self, position: int = 0, end: int | None = None) -> list[tuple[int, BatchHeader]]:
        """Positions and headers of the batches from ``position`` on; payloads are not read."""
        return list(iter_file_headers(self.file, position, self.size if end is None else end))

    def next_offset(self) -> int:
        """Returns the offset after the last batch. Raises CorruptRecordError if the tail is
        torn.
        """
        end = self.base_offset
        if self.size == 0:
            return end
        after = self.offset_index.lookup(self.max_offset).position
        for position, header in self.headers(after):
            after = position + header.size
            end = header.next_offset
        if after != self.size:
            raise CorruptRecordError(
                f"{self.path(LOG_SUFFIX)}: {self.size - after} bytes after the last batch"
            )
        return end

    # Life ----------------------------------------------------------------------------------------

    def rebuild_indexes(self) -> None:
        """Write the indexes anew from the batches' headers."""
        self.reset_indexes()
        self._max_timestamp = TimestampOffset(-1, self.base_offset)
        for position, header in iter_file_headers(self.file, 0, self.size):
            self.note_batches(
                position,
                header.size,
                header.last_offset,
                header.max_timestamp,
                header.last_offset,
                header.base_offset,
            )
        self.seal_indexes()

    def seal_indexes(self) -> None:
        """The time index gets the largest timestamp; files are cut to their entries."""
        if self.size and self.size != self._indexed_size:
            self.time_index.maybe_append(*self.max_timestamp)
            self.offset_index.seal()
            self.time_index.seal()
            if self._txn_index is not None:
                self._txn_index.save()
            self._indexed_size = self.size

    def trust_indexes(self) -> None:
        """The index files were complete when the log was closed: nothing to seal until it grows."""
        self._indexed_size = self.size

    def seal(self) -> None:
        """Nothing will be appended any more."""
        self.seal_indexes()
        if self._file is not None:
            self._file.truncate(self.size)  # a preallocated tail goes
        self._close_indexes()

    def persist_indexes(self, unsynced: list[str]) -> bool:
        """Bring index entries into their files; ``unsynced`` gets the files to sync. Returns
        whether any is new.
        """
        new = False
        for index in (self._offset_index, self._time_index, self._txn_index):
            if index is not None:
                changed, created = index.persist()
                new |= created
                if changed:
                    unsynced.append(index.path)
        return new

    def index_paths(self) -> list[str]:
        return [
            path
            for path in map(self.path, (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX))
            if self._disk.exists(path)
        ]

    def load_transactions(self, end_offset: int) -> None:
        """Take over the aborted transactions that ended before ``end_offset``."""
        index = TransactionIndex(self._disk, self.path(TXN_INDEX_SUFFIX))
        if self._disk.exists(index.path):
            index.load_prefix(end_offset)
        self._txn_index = index

    def reset_transactions(self) -> None:
        """Forget the aborted transactions, whatever the file holds."""
        path = self.path(TXN_INDEX_SUFFIX)
        if self._disk.exists(path):
            self._disk.remove(path)
        self._txn_index = TransactionIndex(self._disk, path)

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        self.txn_index.append(transaction)

    def truncate_to(self, offset: int) -> None:
        """Drop the batches from the one that holds ``offset`` on."""
        first = self.find(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        if first is not None:
            self.file.truncate(first.position)
            self.size = first.position
        self._max_timestamp = self._largest_after(self.time_index.last)
        self._indexed_size = -1
        self.bytes_since_index_entry = 0
        self.roll_after = UNKNOWN_TIMESTAMP
        if self.size == 0:
            self.rolling_timestamp = UNKNOWN_TIMESTAMP

    def open_all(self) -> None:
        """Open everything a reader may need, so that no name is needed from here on."""
        _ = self.file, self.txn_index
        if self.size:
            _ = self.offset_index, self.time_index, self.load_rolling_timestamp()

    def mark_deleted(self) -> list[str]:
        """Rename the files so that they no longer belong to the log; returns the new paths."""
        renamed = []
        suffixes = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX)
        for path in map(self.path, suffixes):
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        self._close_indexes()
        return renamed

    def moved(self, directory: str) -> None:
        """The files are in another directory now; those that are open stay open."""
        self.directory = directory
        for file, suffix in (
            (self._file, LOG_SUFFIX),
            (self._offset_index, INDEX_SUFFIX),
            (self._time_index, TIME_INDEX_SUFFIX),
            (self._txn_index, TXN_INDEX_SUFFIX),
        ):
            if file is not None:
                file.path = self.path(suffix)

    def remove(self) -> None:
        """Delete the files at once (nobody can be reading them)."""
        self.close()
        suffixes = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
        for path in map(self.path, suffixes):
            self._disk.remove(path)

    def _close_indexes(self) -> None:
        for index in (self._offset_index, self._time_index, self._txn_index):
            if index is not None:
                index.close()
        self._offset_index = None
        self._time_index = None
        self._txn_index = None

    def close(self) -> None:
        """Let go of files. A reader that holds the log file keeps it open."""
        self._close_indexes()
        self._file = None

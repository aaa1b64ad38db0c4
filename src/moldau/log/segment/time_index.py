"""The sparse time index: the largest timestamp seen so far, and at which offset.

Entries of 12 bytes: timestamp (int64), relative offset (int32). Both only grow, so the entry before
a timestamp bounds where the first record with that timestamp or a later one can be.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from moldau.log.errors import CorruptIndexError
from moldau.log.segment.index_file import IndexFile
from moldau.machine.disk import Disk

ENTRY_SIZE: Final = 12
ENTRY: Final = struct.Struct(">qi")
_TIMESTAMP: Final = struct.Struct(">q")
_RELATIVE_OFFSET: Final = struct.Struct(">i")
NO_TIMESTAMP: Final = -1


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


class TimeIndex:
    __slots__ = ("_base_offset", "_file", "_max_entries", "last")

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        self._file = IndexFile(disk, path, ENTRY_SIZE)
        self._base_offset = base_offset
        self._max_entries = max_bytes // ENTRY_SIZE
        self.last = TimestampOffset(NO_TIMESTAMP, base_offset)

    @property
    def path(self) -> str:
        return self._file.path

    @path.setter
    def path(self, path: str) -> None:
        self._file.path = path

    @property
    def count(self) -> int:
        return self._file.count

    @property
    def dirty(self) -> bool:
        """Whether there is something that nobody has asked to be synced."""
        return self._file.dirty

    @property
    def is_full(self) -> bool:
        """One slot stays free for the entry that a roll adds."""
        return self._file.count >= self._max_entries - 1

    def load(self) -> None:
        """Read the file; CorruptIndexError if it cannot be a time index of this segment."""
        self._file.load()
        if self._file.count:
            first, last = self.entry(0), self.entry(self._file.count - 1)
            # Zeros at the end are the preallocated part of an index that was never trimmed.
            grows = self._file.count == 1 or last.timestamp > first.timestamp
            if not grows or last.offset < max(first.offset, self._base_offset):
                self._file.close()
                raise CorruptIndexError(f"{self.path} begins with {first} and ends with {last}")
            self.last = last

    def load_prefix(self, data: bytes, count: int) -> None:
        """Take over the first ``count`` entries of ``data``, the content of the file."""
        self._file.load_bytes(data, count)
        self._find_last()

    def entry(self, number: int) -> TimestampOffset:
        timestamp, relative = ENTRY.unpack_from(self._file.buffer, number * ENTRY_SIZE)
        return TimestampOffset(timestamp, self._base_offset + relative)

    def entries(self) -> list[TimestampOffset]:
        return [self.entry(number) for number in range(self._file.count)]

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Returns the entry with the largest timestamp that is not above ``timestamp``."""
        slot = self._file.floor(_TIMESTAMP, 0, timestamp)
        if slot < 0:
            return TimestampOffset(NO_TIMESTAMP, self._base_offset)
        return self.entry(slot)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if the timestamp is larger than any before."""
        last = self.last
        if timestamp <= last.timestamp:
            return
        file = self._file
        assert file.count == 0 or offset >= last.offset
        file.reserve()
        ENTRY.pack_into(file.buffer, file.count * ENTRY_SIZE, timestamp, offset - self._base_offset)
        file.count += 1
        self.last = TimestampOffset(timestamp, offset)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at ``offset`` and above."""
        slot = self._file.floor(_RELATIVE_OFFSET, 8, offset - self._base_offset - 1)
        self.truncate_entries(slot + 1)

    def truncate_entries(self, count: int) -> None:
        self._file.truncate(count)
        self._find_last()

    def _find_last(self) -> None:
        count = self._file.count
        if count:
            self.last = self.entry(count - 1)
        else:
            self.last = TimestampOffset(NO_TIMESTAMP, self._base_offset)

    def persist(self) -> tuple[bool, bool]:
        """Bring the entries into the file; returns whether to sync it, and whether it is new."""
        return self._file.take_unsynced()

    def seal(self) -> None:
        self._file.seal()

    def close(self) -> None:
        self._file.close()

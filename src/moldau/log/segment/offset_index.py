"""The sparse offset index: where in the segment to start looking for an offset.

Entries of 8 bytes: relative offset (int32), position (int32). An entry says that the batches up to
and including that offset start at that position or after it.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from moldau.log.errors import CorruptIndexError
from moldau.log.segment.index_file import IndexFile
from moldau.machine.disk import Disk

ENTRY_SIZE: Final = 8
ENTRY: Final = struct.Struct(">ii")
_RELATIVE_OFFSET: Final = struct.Struct(">i")


class OffsetPosition(NamedTuple):
    offset: int
    position: int


class OffsetIndex:
    __slots__ = ("_base_offset", "_file", "_max_entries", "last_offset")

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        self._file = IndexFile(disk, path, ENTRY_SIZE)
        self._base_offset = base_offset
        self._max_entries = max_bytes // ENTRY_SIZE
        self.last_offset = base_offset

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
    def is_full(self) -> bool:
        return self._file.count >= self._max_entries

    def load(self, log_size: int) -> None:
        """Read the file; CorruptIndexError if it does not fit a segment of ``log_size`` bytes."""
        self._file.load()
        if self._file.count:
            last = self.entry(self._file.count - 1)
            first = self.entry(0)
            # Zeros at the end are the preallocated part of an index that was never trimmed.
            padded = self._file.count > 1 and last.offset <= first.offset
            if last.offset < self._base_offset or last.position >= log_size or padded:
                count = self._file.count
                self._file.close()
                raise CorruptIndexError(
                    f"{self.path} ends with offset {last.offset} at position {last.position} "
                    f"after {count} entries; the segment has {log_size} bytes"
                )
            self.last_offset = last.offset

    def load_prefix(self, data: bytes, count: int) -> None:
        """Take over the first ``count`` entries of ``data``, the content of the file."""
        self._file.load_bytes(data, count)
        self.last_offset = self.entry(count - 1).offset if count else self._base_offset

    def entry(self, number: int) -> OffsetPosition:
        relative, position = ENTRY.unpack_from(self._file.buffer, number * ENTRY_SIZE)
        return OffsetPosition(self._base_offset + relative, position)

    def entries(self) -> list[OffsetPosition]:
        return [self.entry(number) for number in range(self._file.count)]

    def lookup(self, offset: int) -> OffsetPosition:
        """Returns the entry with the largest offset that is not above ``offset``."""
        slot = self._file.floor(_RELATIVE_OFFSET, 0, offset - self._base_offset)
        if slot < 0:
            return OffsetPosition(self._base_offset, 0)
        return self.entry(slot)

    def append(self, offset: int, position: int) -> None:
        """Add an entry; offsets only grow."""
        file = self._file
        assert file.count == 0 or offset > self.last_offset
        file.reserve()
        ENTRY.pack_into(file.buffer, file.count * ENTRY_SIZE, offset - self._base_offset, position)
        file.count += 1
        self.last_offset = offset

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at ``offset`` and above."""
        slot = self._file.floor(_RELATIVE_OFFSET, 0, offset - self._base_offset - 1)
        self.truncate_entries(slot + 1)

    def truncate_entries(self, count: int) -> None:
        self._file.truncate(count)
        self.last_offset = self.entry(count - 1).offset if count else self._base_offset

    def persist(self) -> tuple[bool, bool]:
        """Bring the entries into the file; returns whether to sync it, and whether it is new."""
        return self._file.take_unsynced()

    def seal(self) -> None:
        self._file.seal()

    def close(self) -> None:
        self._file.close()

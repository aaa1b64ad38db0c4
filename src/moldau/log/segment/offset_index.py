"""The sparse offset index: where in the segment to start looking for an offset.

Entries of 8 bytes: relative offset (int32), position (int32). An entry says that the batches up to
and including that offset start at that position or after it.

The file does not say where the batch at that position begins. What was appended in this process is
remembered, so that a reader of large batches finds its place without a look at the log.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right
from typing import Final, NamedTuple

from moldau.log.errors import CorruptIndexError
from moldau.log.segment.index_file import IndexFile
from moldau.machine.disk import Disk

ENTRY_SIZE: Final = 8
ENTRY: Final = struct.Struct(">ii")
_ENTRY_AND_END: Final = struct.Struct(">ii4xi")
"""An entry, and the position of the next one."""
_RELATIVE_OFFSET: Final = struct.Struct(">i")
NO_NEXT_ENTRY: Final = -1


class OffsetPosition(NamedTuple):
    offset: int
    position: int


class OffsetIndex:
    __slots__ = ("_base_offset", "_file", "_max_entries", "_starts", "last_offset")

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        self._file = IndexFile(disk, path, ENTRY_SIZE)
        self._base_offset = base_offset
        self._max_entries = max_bytes // ENTRY_SIZE
        self._starts: array[int] | None = None
        """For each entry the (relative) base offset of its batch; where that is not known, the
        offset of the entry. None until somebody looks, unless the index began in this process.
        """
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
        self._starts = None
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
        self._starts = None
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

    def locate(self, offset: int) -> tuple[int, int]:
        """Returns where to begin looking for the batch that holds ``offset``; and, if that is the
        very batch, a position up to which it ends: of the next entry, or ``NO_NEXT_ENTRY``.
        Otherwise 0.
        """
        starts = self._starts
        if starts is None:
            starts = self._starts = self._load_starts()
        relative = offset - self._base_offset
        slot = bisect_right(starts, relative) - 1
        if slot < 0:
            return 0, 0
        buffer = self._file.buffer
        if slot + 1 == self._file.count:
            last, position = ENTRY.unpack_from(buffer, slot * ENTRY_SIZE)
            end = NO_NEXT_ENTRY
        else:
            last, position, end = _ENTRY_AND_END.unpack_from(buffer, slot * ENTRY_SIZE)
        return position, end if starts[slot] < last >= relative else 0

    def _load_starts(self) -> array[int]:
        fields = array("i", bytes(self._file.buffer[: self._file.count * ENTRY_SIZE]))
        if sys.byteorder == "little":
            fields.byteswap()
        return fields[::2]

    def append(self, offset: int, position: int, base_offset: int | None = None) -> None:
        """Add an entry; offsets only grow. ``base_offset`` is that of the batch at ``position``, if
        it is the one that ends with ``offset``.
        """
        file = self._file
        assert file.count == 0 or offset > self.last_offset
        file.reserve()
        relative = offset - self._base_offset
        ENTRY.pack_into(file.buffer, file.count * ENTRY_SIZE, relative, position)
        if file.count == 0:
            self._starts = array("i")
        file.count += 1
        if self._starts is not None:
            if base_offset is not None:
                relative = base_offset - self._base_offset
            self._starts.append(relative)
        self.last_offset = offset

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at ``offset`` and above."""
        slot = self._file.floor(_RELATIVE_OFFSET, 0, offset - self._base_offset - 1)
        self.truncate_entries(slot + 1)

    def truncate_entries(self, count: int) -> None:
        self._file.truncate(count)
        if self._starts is not None:
            del self._starts[count:]
        self.last_offset = self.entry(count - 1).offset if count else self._base_offset

    def persist(self) -> tuple[bool, bool]:
        """Bring the entries into the file; returns whether to sync it, and whether it is new."""
        return self._file.take_unsynced()

    def seal(self) -> None:
        self._file.seal()

    def close(self) -> None:
        self._file.close()
        self._starts = None

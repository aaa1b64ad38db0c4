"""Fixed-size entries of one index file: in memory while they are few, mapped when they are many.

An index is created with its first entry, not with its segment, and grows in steps. So ten thousand
quiet partitions cost neither mappings nor descriptors nor ten megabytes of preallocation each, and
a busy one stores an entry into mapped memory without a system call.

The active segment's index is rebuilt after a crash (past the recovery point), so its entries need
not reach the file before a flush, a roll or a clean close.
"""

from __future__ import annotations

import mmap
import struct
from typing import Final

from moldau.log.errors import CorruptIndexError
from moldau.machine.disk import Disk, Mapping

IN_MEMORY_BYTES: Final = 4096
_FIRST_BYTES: Final = 96  # divisible by both entry sizes
_FIRST_MAPPED_BYTES: Final = 98_304


class IndexFile:
    """The storage under an offset or time index."""

    __slots__ = (
        "_capacity",
        "_disk",
        "_entry_size",
        "_mapping",
        "_on_disk",
        "_persisted",
        "buffer",
        "count",
        "dirty",
        "new_name",
        "path",
    )

    def __init__(self, disk: Disk, path: str, entry_size: int) -> None:
        self._disk = disk
        self._entry_size = entry_size
        self._mapping: Mapping | None = None
        self._capacity = 0
        self._persisted = 0
        self._on_disk = False
        self.path = path
        self.new_name = False
        """The file was created, and nobody has asked for its directory to be synced since."""
        self.dirty = False
        """Entries changed, and nobody has asked for the file to be synced since."""
        self.buffer: bytearray | mmap.mmap = bytearray()
        self.count = 0

    def load(self) -> None:
        """Take what the file has; FileNotFoundError if there is none."""
        size = self._disk.size(self.path)
        if size % self._entry_size:
            raise CorruptIndexError(
                f"{self.path} has {size} bytes, not a multiple of {self._entry_size}"
            )
        if size <= IN_MEMORY_BYTES:
            data = self._disk.read(self.path)
            self.buffer = bytearray(data[: len(data) - len(data) % self._entry_size])
            self._capacity = len(self.buffer)
        else:
            self._on_disk = True
            self._map(size)
        self._on_disk = True
        self.count = self._persisted = self._capacity // self._entry_size

    def load_bytes(self, data: bytes, count: int) -> None:
        """Start with the first ``count`` entries of ``data``; the file is cut to them."""
        size = count * self._entry_size
        if len(data) != size:
            self._disk.truncate(self.path, size)
            self.dirty = True
        self._on_disk = True
        if size <= IN_MEMORY_BYTES:
            self.buffer = bytearray(data[:size])
            self._capacity = size
        else:
            self._map(size)
        self.count = self._persisted = count

    def reserve(self) -> None:
        """Make room for one more entry. Raises OSError when the disk is full."""
        self.dirty = True
        needed = (self.count + 1) * self._entry_size
        if needed <= self._capacity:
            return
        if needed <= IN_MEMORY_BYTES:
            capacity = min(max(self._capacity * 2, _FIRST_BYTES), IN_MEMORY_BYTES)
            capacity = max(capacity, needed)
            self.buffer.extend(bytes(capacity - self._capacity))  # type: ignore[union-attr]
            self._capacity = capacity
            return
        kept = None if self._mapping is not None else bytes(self.buffer[:needed])
        self._map(max(self._capacity * 2, _FIRST_MAPPED_BYTES))
        if kept is not None:
            self.buffer[: len(kept)] = kept
            self._persisted = self.count

    def truncate(self, count: int) -> None:
        """Forget the entries from ``count`` on."""
        if count >= self.count:
            return
        self.dirty = True
        size = count * self._entry_size
        if self._mapping is not None:
            self.buffer[size : self.count * self._entry_size] = bytes(
                (self.count - count) * self._entry_size
            )
        elif self._persisted > count:
            self._disk.truncate(self.path, size)
        self._persisted = min(self._persisted, count)
        self.count = count

    def persist(self) -> None:
        """Bring the entries into the file (a mapping is the file already)."""
        if self._mapping is not None or (self._on_disk and self._persisted == self.count):
            return
        start = self._persisted * self._entry_size
        file = self._disk.open(self.path, create=True)
        try:
            if file.size != start:
                file.truncate(start)
            if self.count > self._persisted:
                file.append(bytes(self.buffer[start : self.count * self._entry_size]))
        finally:
            file.close()
        self._exists()
        self._persisted = self.count

    def take_unsynced(self) -> tuple[bool, bool]:
        """Bring changes into the file; returns whether to sync it, and whether it is new."""
        if self.dirty:
            self.persist()
        changed, created = self.dirty, self.new_name
        self.dirty = self.new_name = False
        return changed, created

    def floor(self, field: struct.Struct, at: int, value: int) -> int:
        """Returns the last entry whose ``field``, ``at`` bytes into it, is not above ``value``; -1
        if none.

        The field only grows from entry to entry.
        """
        low, high = 0, self.count
        buffer, size = self.buffer, self._entry_size
        unpack = field.unpack_from
        while low < high:
            middle = (low + high) >> 1
            if unpack(buffer, middle * size + at)[0] <= value:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def seal(self) -> None:
        """Nothing will be added: the file gets exactly its entries."""
        self.persist()
        if self._mapping is not None:
            size = self.count * self._entry_size
            if size != self._capacity:
                self._unmap()
                self._disk.truncate(self.path, size)
                if size <= IN_MEMORY_BYTES:
                    self.load()
                else:
                    self._map(size)

    def close(self) -> None:
        """Release memory and descriptor; ``seal`` or ``persist`` first to keep the entries."""
        self._unmap()
        self.buffer = bytearray()
        self._capacity = 0
        self.count = 0

    def _exists(self) -> None:
        if not self._on_disk:
            self._on_disk = True
            self.new_name = self.dirty = True

    def _map(self, capacity: int) -> None:
        mapping = self._disk.map(self.path, capacity)
        self._unmap()
        self._mapping = mapping
        self._exists()
        self.buffer = mapping.buffer
        self._capacity = capacity

    def _unmap(self) -> None:
        if self._mapping is not None:
            self.buffer = bytearray()
            self._mapping.close()
            self._mapping = None

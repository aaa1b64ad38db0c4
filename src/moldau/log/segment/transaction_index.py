"""The index of aborted transactions of a segment; the file appears with the first of them.

Entries of 34 bytes: version (int16), producer id, first offset, last offset, last stable offset
(int64 each). Readers of committed data skip the batches of these producers in these ranges.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from moldau.log.errors import CorruptIndexError
from moldau.machine.disk import Disk, File
from moldau.machine.errors import is_full

ENTRY: Final = struct.Struct(">hqqqq")
ENTRY_SIZE: Final = ENTRY.size
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Read once, then kept in memory: aborted transactions are few."""

    __slots__ = ("_disk", "_entries", "_file", "_saved", "dirty", "new_name", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._file: File | None = None
        self._entries: list[AbortedTransaction] = []
        self._saved = 0
        self.new_name = False
        """The file was created, and nobody has asked for its directory to be synced since."""
        self.dirty = False
        """Entries changed, and nobody has asked for the file to be synced since."""
        self.path = path

    @property
    def entries(self) -> list[AbortedTransaction]:
        return self._entries

    def load(self, base_offset: int) -> None:
        """Read the file; CorruptIndexError if an entry lies before the segment."""
        data = self._disk.read(self.path)
        if len(data) % ENTRY_SIZE:
            raise CorruptIndexError(f"{self.path} has {len(data)} bytes")
        for version, *fields in ENTRY.iter_unpack(data):
            entry = AbortedTransaction(*fields)
            if version > _VERSION or entry.last_offset < base_offset:
                raise CorruptIndexError(f"{self.path} has version {version}, {entry}")
            self._entries.append(entry)
        self._saved = len(self._entries)

    def load_prefix(self, end_offset: int) -> None:
        """Take the entries that ended before ``end_offset``; the file is cut to them. Behind them
        it may have anything, zeros among them: not all that was written was synced.
        """
        data = self._disk.read(self.path)
        whole = len(data) - len(data) % ENTRY_SIZE
        previous = -1
        for version, *fields in ENTRY.iter_unpack(data[:whole]):
            entry = AbortedTransaction(*fields)
            last = entry.last_offset
            if version > _VERSION or not max(previous, entry.first_offset) < last < end_offset:
                break
            previous = last
            self._entries.append(entry)
        self._saved = len(self._entries)
        size = self._saved * ENTRY_SIZE
        if size != len(data):
            self.dirty = True
            self._disk.truncate(self.path, size)

    def append(self, entry: AbortedTransaction) -> None:
        """Add a transaction that an abort marker just ended.

        The marker is in the log already: on a full disk the entry is kept here, and written before
        the recovery point passes it.
        """
        self.dirty = True
        self._entries.append(entry)
        try:
            self.save()
        except OSError as error:
            if not is_full(error):
                raise

    def save(self) -> None:
        """Bring the entries that are not in the file into it."""
        if self._saved == len(self._entries):
            return
        file = self._open()
        size = self._saved * ENTRY_SIZE
        if file.size != size:
            file.truncate(size)
        file.append(
            b"".join(ENTRY.pack(_VERSION, *entry) for entry in self._entries[self._saved :])
        )
        self._saved = len(self._entries)

    def _open(self) -> File:
        if self._file is None:
            file = self._disk.open(self.path, create=True)
            self.new_name = self.new_name or not self._saved
            file.truncate(self._saved * ENTRY_SIZE)
            self._file = file
        return self._file

    def persist(self) -> tuple[bool, bool]:
        """Bring the entries into the file; returns whether to sync it, and whether it is new."""
        self.save()
        changed, created = self.dirty, self.new_name
        self.dirty = self.new_name = False
        return changed, created

    def collect(self, start: int, upper: int, into: list[AbortedTransaction]) -> bool:
        """Add what overlaps [start, upper); returns True when later segments cannot matter."""
        for entry in self._entries:
            if entry.last_offset >= start and entry.first_offset < upper:
                into.append(entry)
            if entry.last_stable_offset >= upper:
                return True
        return False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions that ended at ``offset`` or later."""
        kept = [entry for entry in self._entries if entry.last_offset < offset]
        if len(kept) != len(self._entries):
            self.dirty = True
            self._saved = min(self._saved, len(kept))
            self._open().truncate(self._saved * ENTRY_SIZE)
            self._entries = kept

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

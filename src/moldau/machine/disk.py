"""Files as an interface: what a log and a journal may ask of a disk.

Whatever is written goes through a ``Disk``, so that a simulation can hand in one that loses what
was not synced, tears the last write, fills up or fails. The interface is therefore explicit about
what an operating system promises: nothing is durable before ``sync`` (files) or ``sync_dir``
(names).
"""

from __future__ import annotations

import mmap
from typing import NamedTuple, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class ReadableFile(Protocol):
    """The part of a file that is needed to send a slice of it."""

    path: str

    def fileno(self) -> int | None:
        """Returns the descriptor for ``sendfile``, or None when the file is not one of the
        operating system's.
        """
        ...

    def pread(self, size: int, position: int) -> bytes: ...


class File(ReadableFile, Protocol):
    """A file that grows at its end. It stays readable as long as anybody holds it, even deleted."""

    size: int
    """Bytes that belong to the file as its user sees it (a preallocated tail does not count)."""

    def append(self, data: Buffer) -> None:
        """Write all of ``data`` at ``size``, or raise OSError and leave ``size`` as it was.

        After an error part of the data may stand behind ``size``; the caller truncates.
        """
        ...

    def truncate(self, size: int) -> None: ...

    def preallocate(self, size: int) -> None:
        """Reserve space for ``size`` bytes without changing ``size``."""
        ...

    def sync(self) -> None:
        """Make everything written so far durable. The only method for use in other threads."""
        ...

    def close(self) -> None: ...


class FileSlice(NamedTuple):
    """``size`` bytes of ``file`` from ``position`` on. Holding it keeps the file readable."""

    file: ReadableFile
    position: int
    size: int

    def read(self) -> bytes:
        """Returns the bytes, for those who cannot use ``sendfile``."""
        return self.file.pread(self.size, self.position)


class Mapping(Protocol):
    """A file mapped into memory for reading and writing in place."""

    buffer: bytearray | mmap.mmap
    capacity: int

    def close(self) -> None: ...


class DiskUsage(NamedTuple):
    total: int
    free: int
    """What an ordinary user may still write."""


class DirectoryLock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    """Where files and directories come from. Paths are plain strings."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending; FileNotFoundError unless ``create``."""
        ...

    def map(self, path: str, capacity: int) -> Mapping:
        """Map the first ``capacity`` bytes, growing the file to that size (space reserved)."""
        ...

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a small file, neither atomic nor synced."""
        ...

    def write_atomic(self, path: str, data: bytes) -> None:
        """Replace a small file: after a crash it has the old content or the new, and stays so."""
        ...

    def sync(self, path: str) -> None:
        """Make the content of the file at ``path`` durable."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make creations, renames and removals in a directory durable."""
        ...

    def sync_filesystem(self, path: str) -> None:
        """Make everything durable on the file system that holds ``path``: for very many files."""
        ...

    def size(self, path: str) -> int: ...

    def usage(self, path: str) -> DiskUsage:
        """Returns how large the file system that holds ``path`` is, and how much of it is free."""
        ...

    def modified_ms(self, path: str) -> int:
        """Returns when the file was last written to."""
        ...

    def is_private(self, path: str) -> bool:
        """Returns whether nobody but the file's owner may read it."""
        ...

    def absolute(self, path: str) -> str:
        """Returns the same path from the root on, whatever the process later works in."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def listdir(self, path: str) -> list[str]: ...

    def makedirs(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file; one that is not there is no error."""
        ...

    def remove_tree(self, path: str) -> None: ...

    def truncate(self, path: str, size: int) -> None: ...

    def lock(self, path: str) -> DirectoryLock | None:
        """Lock a file against other processes; None if another holds it."""
        ...

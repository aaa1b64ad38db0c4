"""The few things that the embedded store asks of a disk."""

from __future__ import annotations

import errno
from typing import Final, Protocol

from moldau.coordination.errors import StoreLockedError
from moldau.machine import Disk, File
from moldau.machine.directories import make_directory
from moldau.machine.disk import DirectoryLock
from moldau.machine.errors import is_full, is_passing

LOCK: Final = "coordination.lock"


class Storage(Protocol):
    """Named files of one store. Whatever is written is durable on return; all may raise OSError."""

    def lock(self) -> None:
        """Take possession, before anything else; StoreLockedError if somebody else has it."""
        ...

    def read(self, name: str) -> bytes | None:
        """Returns the whole file, or None if there is none."""
        ...

    def replace(self, name: str, data: bytes, *, keep: str | None = None, room: int = 0) -> None:
        """Put a new file in the place of the old one, which stays under the name ``keep``.

        Behind the data it has ``room``, zeros. If it raises, the old one is in its place.
        """
        ...

    def append(self, name: str, data: bytes, at: int) -> None:
        """Write behind the first ``at`` bytes and sync. If it raises, some of it may be there."""
        ...

    def blank(self, name: str, size: int) -> None:
        """Leave nothing but zeros behind the first ``size`` bytes. Needs no room."""
        ...

    def prepare(self, name: str) -> None:
        """Take now what ``append`` needs besides room: there may be no descriptor later."""
        ...

    def reserve(self, name: str, size: int) -> None:
        """Make sure that the file may grow to ``size`` bytes although the disk is full by then."""
        ...

    def size(self, name: str) -> int: ...

    def close(self) -> None: ...


class DiskStorage:
    """Files in a directory, locked so that two processes never share one store."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._files: dict[str, File] = {}
        self._lock: DirectoryLock | None = None
        self._names_are_durable = False
        """Whether the files stand where they were put even after a power cut."""

    def lock(self) -> None:
        make_directory(self._disk, self._directory)
        self._lock = self._disk.lock(self._path(LOCK))
        if self._lock is None:
            raise StoreLockedError(
                f"the coordination store in {self._directory} is in use by another process",
                path=self._directory,
            )

    def read(self, name: str) -> bytes | None:
        try:
            return self._disk.read(self._path(name))
        except FileNotFoundError:
            return None

    def replace(self, name: str, data: bytes, *, keep: str | None = None, room: int = 0) -> None:
        disk, path = self._disk, self._path(name)
        new = disk.open(f"{path}.tmp", create=True)
        try:
            new.truncate(0)
            new.append(data)
            if room:
                new.preallocate(len(data) + room)
            new.sync()
        finally:
            new.close()
        self._forget(name)
        self._names_are_durable = False
        if keep is None or not disk.exists(path):
            disk.rename(f"{path}.tmp", path)
        else:
            disk.rename(path, self._path(keep))
            try:
                disk.rename(f"{path}.tmp", path)
            except OSError:
                disk.rename(self._path(keep), path)
                raise
        try:
            self._sync_names()
        except OSError as error:
            if not is_passing(error) and not is_full(error):
                raise
            # The new one is in its place. The next change is not acknowledged before they are.

    def append(self, name: str, data: bytes, at: int) -> None:
        self.prepare(name)
        file = self._open(name)
        file.size = at
        file.append(data)
        try:
            file.sync()
        except OSError as error:
            # Never a full disk: the system may have dropped what it could not write.
            raise OSError(errno.EIO, f"sync failed: {error}", file.path) from error

    def blank(self, name: str, size: int) -> None:
        length = self.size(name)
        if length > size:
            # Not cut off: the room is wanted, and another file might take it.
            self.append(name, bytes(length - size), size)

    def prepare(self, name: str) -> None:
        self._open(name)
        if not self._names_are_durable:
            self._sync_names()

    def reserve(self, name: str, size: int) -> None:
        if self.size(name) < size:
            self._open(name).preallocate(size)

    def size(self, name: str) -> int:
        return self._disk.size(self._path(name))

    def close(self) -> None:
        for name in list(self._files):
            self._forget(name)
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _sync_names(self) -> None:
        self._disk.sync_dir(self._directory)
        self._names_are_durable = True

    def _open(self, name: str) -> File:
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = self._disk.open(self._path(name))
        return file

    def _forget(self, name: str) -> None:
        file = self._files.pop(name, None)
        if file is not None:
            file.close()

"""The few things that the embedded store asks of a disk."""

from __future__ import annotations

from typing import Final, Protocol

from moldau.coordination.errors import StoreLockedError
from moldau.machine import Disk, File
from moldau.machine.directories import make_directory
from moldau.machine.disk import DirectoryLock

LOCK: Final = "coordination.lock"


class Storage(Protocol):
    """Named files of one store. Whatever returns normally is durable; all may raise OSError."""

    def lock(self) -> None:
        """Take possession, before anything else; StoreLockedError if somebody else has it."""
        ...

    def read(self, name: str) -> bytes | None:
        """Returns the whole file, or None if there is none."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Put a new file in the place of the old one, atomically."""
        ...

    def append(self, name: str, data: bytes) -> None:
        """Add to the end and sync. If it raises, some of the data may have been written."""
        ...

    def truncate(self, name: str, size: int) -> None: ...

    def close(self) -> None: ...


class DiskStorage:
    """Files in a directory, locked so that two processes never share one store."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._files: dict[str, File] = {}
        self._lock: DirectoryLock | None = None

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

    def replace(self, name: str, data: bytes) -> None:
        self._forget(name)
        self._disk.write_atomic(self._path(name), data)

    def append(self, name: str, data: bytes) -> None:
        file = self._open(name)
        file.append(data)
        file.sync()

    def truncate(self, name: str, size: int) -> None:
        file = self._open(name)
        file.truncate(size)
        file.sync()

    def close(self) -> None:
        for name in list(self._files):
            self._forget(name)
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _open(self, name: str) -> File:
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = self._disk.open(self._path(name))
        return file

    def _forget(self, name: str) -> None:
        file = self._files.pop(name, None)
        if file is not None:
            file.close()

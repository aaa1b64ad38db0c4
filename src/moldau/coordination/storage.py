"""The few things that the embedded store asks of a disk, so that a test can supply a worse one."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Protocol

from moldau.coordination.errors import StoreLockedError

LOCK = "coordination.lock"


class Storage(Protocol):
    """Named files of one store. Whatever returns normally is durable; all may raise OSError."""

    def read(self, name: str) -> bytes | None:
        """The whole file, or None if there is none."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Put a new file in the place of the old one, atomically."""
        ...

    def append(self, name: str, data: bytes) -> None:
        """Add to the end and sync. If it raises, some of the data may have been written."""
        ...

    def truncate(self, name: str, size: int) -> None: ...

    def close(self) -> None: ...


class OsStorage:
    """Files in a directory, locked so that two processes never share one store."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._descriptors: dict[str, int] = {}
        self._lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise StoreLockedError(
                f"the coordination store in {directory} is in use by another process",
                path=str(directory),
            ) from error

    def read(self, name: str) -> bytes | None:
        try:
            return (self.directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, name: str, data: bytes) -> None:
        self._forget(name)
        temporary = self.directory / f"{name}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(self.directory / name)
        self._sync_directory()

    def append(self, name: str, data: bytes) -> None:
        descriptor = self._open(name)
        _write_all(descriptor, data)
        os.fdatasync(descriptor)

    def truncate(self, name: str, size: int) -> None:
        descriptor = self._open(name)
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)

    def close(self) -> None:
        for name in list(self._descriptors):
            self._forget(name)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _open(self, name: str) -> int:
        descriptor = self._descriptors.get(name)
        if descriptor is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
            descriptor = self._descriptors[name] = os.open(self.directory / name, flags)
        return descriptor

    def _forget(self, name: str) -> None:
        descriptor = self._descriptors.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)

    def _sync_directory(self) -> None:
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]

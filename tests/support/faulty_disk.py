"""The machine's real disk, except that it fails where a test says so.

    disk = FaultyDisk()
    disk.fail("append", "/data/1", errno.ENOSPC)

From then on every append to a file under that path raises. Files keep their descriptors, so
``sendfile`` still reads what is there, as it does from a disk that is only full.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from moldau.machine.disk import Buffer
from moldau.machine.real.disk import OsDisk, OsFile, OsMapping


class FaultyFile(OsFile):
    __slots__ = ("_check",)

    def __init__(self, file: OsFile, check: Callable[[str, str], None]) -> None:
        fd = file.fileno()
        assert fd is not None
        super().__init__(file.path, os.dup(fd), file.size)
        file.close()
        self._check = check

    def append(self, data: Buffer) -> None:
        self._check("append", self.path)
        super().append(data)

    def pread(self, size: int, position: int) -> bytes:
        self._check("read", self.path)
        return super().pread(size, position)

    def sync(self) -> None:
        self._check("sync", self.path)
        super().sync()

    def truncate(self, size: int) -> None:
        self._check("truncate", self.path)
        super().truncate(size)


class FaultyDisk(OsDisk):
    def __init__(self) -> None:
        self._faults: dict[tuple[str, str], int] = {}
        self.attempts: list[tuple[str, str]] = []
        """Operations that were made to fail, and on which path."""

    def fail(self, operation: str, under: Path | str, error: int) -> None:
        """``operation``: append, read, sync, truncate, open, map, makedirs, listdir, write or
        rename.
        """
        self._faults[operation, str(under)] = error

    def heal(self) -> None:
        self._faults.clear()

    def check(self, operation: str, path: str) -> None:
        for (failing, under), error in self._faults.items():
            if failing == operation and path.startswith(under):
                self.attempts.append((operation, path))
                raise OSError(error, os.strerror(error), path)

    def open(self, path: str, *, create: bool = False) -> OsFile:
        self.check("open", path)
        return FaultyFile(super().open(path, create=create), self.check)

    def map(self, path: str, capacity: int) -> OsMapping:
        self.check("map", path)
        return super().map(path, capacity)

    def makedirs(self, path: str) -> None:
        self.check("makedirs", path)
        super().makedirs(path)

    def listdir(self, path: str) -> list[str]:
        self.check("listdir", path)
        return super().listdir(path)

    def write(self, path: str, data: bytes) -> None:
        self.check("write", path)
        super().write(path, data)

    def write_atomic(self, path: str, data: bytes) -> None:
        self.check("write", path)
        super().write_atomic(path, data)

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        super().rename(source, target)

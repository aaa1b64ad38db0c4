"""A disk of a few megabytes that really fills up.

Where the tests may mount, it is a tmpfs of that size; elsewhere a directory of the machine's disk
whose files together may not grow beyond it.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from moldau.machine.disk import Buffer, Disk, DiskUsage
from moldau.machine.real.disk import OsDisk, OsFile, OsMapping


@contextmanager
def small_disk(path: Path, size: int, *, mount: bool = True) -> Iterator[Disk]:
    """Make ``path`` a directory on a small disk; answers through what to reach it."""
    path.mkdir(parents=True)
    if mount and _mount(path, size):
        try:
            yield OsDisk()
        finally:
            # Lazily: a test that failed may have left files open.
            subprocess.run(["umount", "--lazy", str(path)], check=True)
    else:
        yield QuotaDisk(path, size)


def _mount(path: Path, size: int) -> bool:
    if shutil.which("mount") is None or os.geteuid() != 0:
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


class QuotaFile(OsFile):
    __slots__ = ("_need",)

    def __init__(self, file: OsFile, need: Callable[[str, int], None]) -> None:
        fd = file.fileno()
        assert fd is not None
        super().__init__(file.path, os.dup(fd), file.size)
        file.close()
        self._need = need

    def append(self, data: Buffer) -> None:
        self._need(self.path, len(data))
        super().append(data)

    def preallocate(self, size: int) -> None:
        self._need(self.path, size - self.size)
        super().preallocate(size)


class QuotaDisk(OsDisk):
    """The machine's disk, except that what is under one directory has a limit."""

    def __init__(self, root: Path, size: int) -> None:
        self._root = root
        self._size = size

    def _used(self) -> int:
        used = 0
        for directory, _, files in os.walk(self._root):
            for file in files:
                with suppress(FileNotFoundError):  # another thread removes files meanwhile
                    used += Path(directory, file).stat().st_size
        return used

    def _need(self, path: str, growth: int) -> None:
        if path.startswith(str(self._root)) and self._used() + growth > self._size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def open(self, path: str, *, create: bool = False) -> OsFile:
        return QuotaFile(super().open(path, create=create), self._need)

    def map(self, path: str, capacity: int) -> OsMapping:
        self._need(path, capacity)
        return super().map(path, capacity)

    def write(self, path: str, data: bytes) -> None:
        self._need(path, len(data))
        super().write(path, data)

    def write_atomic(self, path: str, data: bytes) -> None:
        self._need(path, len(data))
        super().write_atomic(path, data)

    def usage(self, path: str) -> DiskUsage:
        return DiskUsage(self._size, max(self._size - self._used(), 0))

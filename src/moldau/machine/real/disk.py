"""The machine's file system."""
# ruff: noqa: PTH103, PTH105, PTH108, PTH110, PTH112, PTH116, PTH120, PTH208
# Plain strings and os calls: pathlib costs several microseconds per call, and ten thousand
# partitions are opened at start.

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from moldau.machine.disk import Buffer, DiskUsage
from moldau.native import mypyc_attr

_READ_WRITE: Final = os.O_RDWR | os.O_CLOEXEC


@mypyc_attr(allow_interpreted_subclasses=True)
class OsFile:
    """A file of the operating system; its descriptor lives as long as the object."""

    __slots__ = ("_fd", "path", "size")

    def __init__(self, path: str, fd: int, size: int) -> None:
        self.path = path
        self.size = size
        self._fd = fd

    def append(self, data: Buffer) -> None:
        # pwrite at our own idea of the end: what a failed write left behind is overwritten.
        written = os.pwrite(self._fd, data, self.size)
        if written != len(data):
            self._append_rest(memoryview(data), written)
        self.size += len(data)

    def _append_rest(self, data: memoryview, written: int) -> None:
        # A short write on a full disk says nothing; the next one tells why.
        while written < len(data):
            count = os.pwrite(self._fd, data[written:], self.size + written)
            if count == 0:
                raise OSError(errno.EIO, "no bytes could be written", self.path)
            written += count

    def pread(self, size: int, position: int) -> bytes:
        return os.pread(self._fd, size, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self.size = size

    def preallocate(self, size: int) -> None:
        os.posix_fallocate(self._fd, 0, size)

    def sync(self) -> None:
        if self._fd < 0:  # of all calls only this one takes it for a mistake of the caller
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        os.fsync(self._fd)

    def fileno(self) -> int | None:
        return self._fd

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        with suppress(OSError):
            self.close()


def open_for_reading(path: str) -> OsFile:
    """Returns a file of someone else, perhaps of a broker that is running: nothing can be written
    to it.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return OsFile(path, fd, os.fstat(fd).st_size)


class OsMapping:
    """``mmap`` over a file whose space is reserved, so that no store can hit a full disk."""

    __slots__ = ("_map", "buffer", "capacity")

    def __init__(self, mapped: mmap.mmap, capacity: int) -> None:
        self._map = mapped
        self.buffer: bytearray | mmap.mmap = mapped
        self.capacity = capacity

    def close(self) -> None:
        self._map.close()


class OsLock:
    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)  # closing releases the flock
            self._fd = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class OsDisk:
    """The machine's file system."""

    def open(self, path: str, *, create: bool = False) -> OsFile:
        flags = _READ_WRITE | os.O_CREAT if create else _READ_WRITE
        fd = os.open(path, flags, 0o644)
        return OsFile(path, fd, os.fstat(fd).st_size)

    def map(self, path: str, capacity: int) -> OsMapping:
        fd = os.open(path, _READ_WRITE | os.O_CREAT, 0o644)
        try:
            # Without reserved space a store into the mapping raises SIGBUS when the disk is full,
            # and takes the process with it.
            if os.fstat(fd).st_size < capacity:
                os.posix_fallocate(fd, 0, capacity)
            return OsMapping(mmap.mmap(fd, capacity), capacity)
        finally:
            os.close(fd)

    def read(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # Small files come in one read, which returns short only at the end.
            data = os.read(fd, 65536)
            if len(data) < 65536:
                return data
            parts = [data]
            while data := os.read(fd, 1 << 20):
                parts.append(data)
            return b"".join(parts)
        finally:
            os.close(fd)

    def write(self, path: str, data: bytes) -> None:
        self._write(path, data, sync=False)

    def _write(self, path: str, data: bytes, *, sync: bool) -> None:
        # Not O_TRUNC: file systems take that for a replacement and write it out when it is closed.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if os.fstat(fd).st_size > len(data):
                os.ftruncate(fd, len(data))
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)

    def write_atomic(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        self._write(temporary, data, sync=True)
        os.replace(temporary, path)
        self.sync_dir(os.path.dirname(path))

    def sync(self, path: str) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_filesystem(self, path: str) -> None:
        # The standard library has no syncfs, which unlike sync tells of errors.
        import ctypes

        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            os.sync()
            return
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if syncfs(fd) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), path)
        finally:
            os.close(fd)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def usage(self, path: str) -> DiskUsage:
        found = os.statvfs(path)
        return DiskUsage(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def is_private(self, path: str) -> bool:
        return os.stat(path).st_mode & (stat.S_IRGRP | stat.S_IROTH) == 0

    def absolute(self, path: str) -> str:
        return str(Path(path).absolute())

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def makedirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def truncate(self, path: str, size: int) -> None:
        os.truncate(path, size)

    def lock(self, path: str) -> OsLock | None:
        fd = os.open(path, _READ_WRITE | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return None
        return OsLock(fd)

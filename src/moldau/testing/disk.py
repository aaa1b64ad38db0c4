"""A disk in memory that does what real ones may do: lose, tear, reorder, fill up, fail.

It keeps two versions of everything: what programs see, and what would survive a power cut. Content
becomes durable by ``sync``, names (created, renamed, removed) by ``sync_dir`` of their directory;
``power_cut`` answers the disk that the machine finds after its next start::

    disk = MemoryDisk(random.Random(seed))
    ...
    disk = disk.power_cut()

What was not synced survives in part: each write on its own may be there, be missing (zeros if a
later one is there), or be torn at a sector; the operations on a directory survive up to some point.
"""

from __future__ import annotations

import errno
import mmap
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final, TypeAlias
from zlib import crc32

from moldau.machine.disk import Buffer, DiskUsage

SECTOR: Final = 512

_CLOSED: Final = -1
"""Instead of a life: nobody's."""

_Write: TypeAlias = tuple[int, bytes]
"""Position and bytes; a truncation is (size, b"")."""


class _FileNode:
    """Content of a file, now and as far as it is durable."""

    __slots__ = ("data", "durable", "mapped", "modified_ms", "pending")

    def __init__(self, data: bytes = b"") -> None:
        self.modified_ms = 0
        self.data = bytearray(data)
        self.durable = bytes(data)
        self.pending: list[_Write] = []
        self.mapped = False

    def write(self, position: int, data: bytes) -> None:
        if position > len(self.data):
            self.data.extend(bytes(position - len(self.data)))
        self.data[position : position + len(data)] = data
        self.pending.append((position, data))

    def truncate(self, size: int) -> None:
        if size <= len(self.data):
            del self.data[size:]
        else:
            self.data.extend(bytes(size - len(self.data)))
        self.pending.append((size, b""))

    def sync(self) -> None:
        self.durable = bytes(self.data)
        self.pending.clear()

    def after_power_cut(self, rng: random.Random) -> _FileNode:
        data = bytearray(self.durable)
        for position, written in self.pending:
            if not written:
                if rng.random() < 0.5:
                    data = data[:position] + bytes(max(position - len(data), 0))
                continue
            for at, piece in _survivors(position, written, rng):
                if at > len(data):
                    data.extend(bytes(at - len(data)))
                data[at : at + len(piece)] = piece
        if self.mapped:
            self._mix_mapped(data, rng)
        node = _FileNode(bytes(data))
        node.modified_ms = self.modified_ms
        return node

    def _mix_mapped(self, data: bytearray, rng: random.Random) -> None:
        """Stores into a mapping are written back sector by sector, in any order."""
        for at in range(0, len(self.data), SECTOR):
            if rng.random() < 0.5:
                piece = self.data[at : at + SECTOR]
                if at > len(data):
                    data.extend(bytes(at - len(data)))
                data[at : at + len(piece)] = piece


def _survivors(position: int, data: bytes, rng: random.Random) -> Iterator[_Write]:
    """What is left of a write that was not synced."""
    fate = rng.random()
    if fate < 0.35:
        yield position, data
    elif fate < 0.5:
        yield position, data[: rng.randrange(len(data) + 1)]
    elif fate < 0.6:
        yield position, bytes(len(data))  # the size grew, the content never came
    elif fate < 0.75:
        first = SECTOR - position % SECTOR
        cuts = [0, *range(first, len(data), SECTOR), len(data)]
        for start, end in pairwise(cuts):
            if rng.random() < 0.5:
                yield position + start, data[start:end]


class _DirNode:
    """Names in a directory, now and as far as they are durable."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, _Node] = {}
        self.durable: dict[str, _Node] = {}
        self.pending: list[dict[str, _Node | None]] = []

    def change(self, changes: dict[str, _Node | None]) -> None:
        """One atomic change of names."""
        _apply(self.entries, changes)
        self.pending.append(changes)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.pending.clear()

    def after_power_cut(self, rng: random.Random) -> _DirNode:
        names = dict(self.durable)
        for changes in self.pending[: rng.randrange(len(self.pending) + 1)]:
            _apply(names, changes)
        node = _DirNode()
        node.entries = {name: child.after_power_cut(rng) for name, child in names.items()}
        node.durable = dict(node.entries)
        return node


_Node: TypeAlias = _FileNode | _DirNode


def _apply(names: dict[str, _Node], changes: dict[str, _Node | None]) -> None:
    for name, node in changes.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class MemoryFile:
    __slots__ = ("_disk", "_life", "_node", "path", "size")

    def __init__(self, disk: MemoryDisk, path: str, node: _FileNode) -> None:
        self._disk = disk
        self._life = disk.life
        """Of the process that opened the file."""
        self._node = node
        self.path = path
        self.size = len(node.data)

    def append(self, data: Buffer) -> None:
        content = bytes(data)
        room = self._disk.room_for(self.size + len(content) - len(self._node.data))
        error = self._disk.fault("append", self.path, self._life)
        if error is None and room is not None:
            error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            content = content[: max(len(content) + room, 0)]
        elif error is not None:
            content = content[: self._disk.rng.randrange(len(content) + 1)]
        if content:
            self._node.write(self.size, content)
            self._node.modified_ms = self._disk.now_ms
        if error is not None:
            raise error
        self.size += len(content)

    def pread(self, size: int, position: int) -> bytes:
        self._disk.check("read", self.path, self._life)
        data = bytes(memoryview(self._node.data)[position : position + size])
        self._disk.bytes_read[self.path] += len(data)
        return data

    def truncate(self, size: int) -> None:
        self._disk.check("truncate", self.path, self._life)
        self._node.truncate(size)
        self._node.modified_ms = self._disk.now_ms
        self.size = size

    def preallocate(self, size: int) -> None:
        self._disk.check("preallocate", self.path, self._life)
        if size > len(self._node.data):
            self._disk.need_room(size - len(self._node.data), self.path)
            self._node.truncate(size)

    def sync(self) -> None:
        self._disk.check("sync", self.path, self._life)
        self._node.sync()

    def fileno(self) -> int | None:
        return None

    def close(self) -> None:
        self._life = _CLOSED


class MemoryMapping:
    __slots__ = ("buffer", "capacity")

    def __init__(self, buffer: bytearray, capacity: int) -> None:
        self.buffer: bytearray | mmap.mmap = buffer
        self.capacity = capacity

    def close(self) -> None:
        pass


class MemoryLock:
    def __init__(self, disk: MemoryDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        # By then it may be somebody else's.
        if self._disk.locks.get(self._path) is self:
            del self._disk.locks[self._path]


class MemoryDisk:
    """A ``Disk`` for tests. Deterministic for a given ``random.Random``."""

    def __init__(self, rng: random.Random | None = None, *, capacity: int | None = None) -> None:
        self.rng = rng or random.Random(0)  # noqa: S311 (chance for tests, not for keys)
        self.capacity = capacity
        """Bytes that fit on the disk; None for no limit."""
        self.bytes_read: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()
        self.locks: dict[str, MemoryLock] = {}
        self.now_ms = 0
        """The time that files get when they are appended to."""
        self.life = 0
        """Counts the processes that have used the disk: each has its own files."""
        self.guard: Callable[[str, str], object] | None = None
        """Called before every operation, with its name and path; may raise."""
        self._root = _DirNode()
        self._off = False
        self._fault: tuple[int, int, frozenset[str], str] | None = None

    # What goes wrong ---------------------------------------------------------------------------

    def fail(
        self,
        error: int,
        *,
        after: int = 0,
        operations: frozenset[str] = frozenset(),
        under: str = "",
    ) -> None:
        """From now on operations on paths ``under`` that one fail with ``error``, once ``after``
        more have succeeded.

        ``operations`` names the kinds that fail (append, read, truncate, preallocate, sync, map,
        open, write, sync_dir, rename, remove, makedirs, listdir); all of them if empty.
        """
        self._fault = (error, after, operations, under)

    def heal(self) -> None:
        """No more failures."""
        self._fault = None

    def next_life(self) -> None:
        """The process that used the disk was killed: what it wrote stays, what it holds refuses."""
        self.life += 1
        self.locks.clear()
        _unmap(self._root)

    def unsynced(self) -> list[tuple[str, int]]:
        """Files with content that a power cut may take, and how many bytes of it there are."""
        return list(_unsynced(self._root, ""))

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Damage a file, on the disk and in the cache alike."""
        node = self._file(path)
        node.data[position] ^= 1 << bit
        node.sync()

    def power_cut(self) -> MemoryDisk:
        """The disk after a power cut. This one is off: everything on it fails from now on."""
        disk = MemoryDisk(self.rng, capacity=self.capacity)
        disk.now_ms = self.now_ms
        disk._root = self._root.after_power_cut(self.rng)
        self._off = True
        return disk

    def check(self, operation: str, path: str, life: int | None = None) -> None:
        error = self.fault(operation, path, life)
        if error is not None:
            raise error

    def fault(self, operation: str, path: str, life: int | None = None) -> OSError | None:
        """Returns the error that this operation is to fail with, if it is, perhaps half done.

        ``life`` is that of the process which opened the file; if it is over, or the machine off,
        nothing is done at all.
        """
        if self._off:
            raise OSError(errno.EIO, "the machine is off", path)
        if life is not None and life != self.life:
            raise OSError(errno.EBADF, "the file is closed, or its process has ended", path)
        if self.guard is not None:
            self.guard(operation, path)
        self.operations[operation] += 1
        if self._fault is None:
            return None
        number, after, operations, under = self._fault
        if (operations and operation not in operations) or not path.startswith(under):
            return None
        if after > 0:
            self._fault = (number, after - 1, operations, under)
            return None
        return OSError(number, os.strerror(number), path)

    @property
    def used(self) -> int:
        """Bytes in all files."""
        return self._used(self._root)

    def room_for(self, growth: int) -> int | None:
        """None if that many bytes fit; otherwise how many are missing, as a negative number."""
        if self.capacity is None or growth <= 0:
            return None
        missing = self.capacity - self._used(self._root) - growth
        return None if missing >= 0 else missing

    def need_room(self, growth: int, path: str) -> None:
        if self.room_for(growth) is not None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def _used(self, node: _DirNode) -> int:
        return sum(
            self._used(child) if isinstance(child, _DirNode) else len(child.data)
            for child in node.entries.values()
        )

    # The Disk interface --------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self.check("open", path)
        return MemoryFile(self, path, self._file(path, create=create))

    def map(self, path: str, capacity: int) -> MemoryMapping:
        self.check("map", path)
        node = self._file(path, create=True)
        if capacity > len(node.data):
            self.need_room(capacity - len(node.data), path)
            node.truncate(capacity)
        node.mapped = True
        return MemoryMapping(node.data, capacity)

    def read(self, path: str) -> bytes:
        self.check("read", path)
        data = bytes(self._file(path).data)
        self.bytes_read[path] += len(data)
        return data

    def write(self, path: str, data: bytes) -> None:
        self.check("write", path)
        node = self._file(path, create=True)
        self.need_room(len(data) - len(node.data), path)
        node.truncate(0)
        if data:
            node.write(0, data)
        node.modified_ms = self.now_ms

    def write_atomic(self, path: str, data: bytes) -> None:
        self.write(path + ".tmp", data)
        self.sync(path + ".tmp")
        self.rename(path + ".tmp", path)
        self.sync_dir(path.rpartition("/")[0])

    def sync(self, path: str) -> None:
        self.check("sync", path)
        self._file(path).sync()

    def sync_dir(self, path: str) -> None:
        self.check("sync_dir", path)
        self._dir(path).sync()

    def sync_filesystem(self, path: str) -> None:
        self.check("sync", path)
        _sync_tree(self._root)

    def size(self, path: str) -> int:
        self.check("size", path)
        return len(self._file(path).data)

    def usage(self, path: str) -> DiskUsage:
        self.check("usage", path)
        total = 1 << 40 if self.capacity is None else self.capacity
        return DiskUsage(total, total - self._used(self._root))

    def modified_ms(self, path: str) -> int:
        self.check("modified_ms", path)
        return self._file(path).modified_ms

    def is_private(self, path: str) -> bool:
        self._file(path)
        return True  # there are no others

    def absolute(self, path: str) -> str:
        return "/" + "/".join(_parts(path))

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._find(path), _DirNode)

    def listdir(self, path: str) -> list[str]:
        self.check("listdir", path)
        # In no order that a program could rely on, as file systems do.
        return sorted(self._dir(path).entries, key=lambda name: crc32(name.encode()))

    def makedirs(self, path: str) -> None:
        self.check("makedirs", path)
        node = self._root
        for name in _parts(path):
            child = node.entries.get(name)
            if child is None:
                child = _DirNode()
                node.change({name: child})
            assert isinstance(child, _DirNode)
            node = child

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        node = self._find(source)
        if node is None:
            raise _not_found(source)
        directory, old = self._parent(source)
        target_directory, new = self._parent(target)
        if directory is target_directory:
            directory.change({old: None, new: node})
        else:
            target_directory.change({new: node})
            directory.change({old: None})

    def remove(self, path: str) -> None:
        self.check("remove", path)
        if self._find(path) is not None:
            directory, name = self._parent(path)
            directory.change({name: None})

    def remove_tree(self, path: str) -> None:
        self.check("remove", path)
        if self._find(path) is None:
            raise _not_found(path)
        directory, name = self._parent(path)
        directory.change({name: None})

    def truncate(self, path: str, size: int) -> None:
        self.check("truncate", path)
        node = self._file(path)
        node.truncate(size)
        node.modified_ms = self.now_ms

    def lock(self, path: str) -> MemoryLock | None:
        self.check("lock", path)
        self._file(path, create=True)
        if path in self.locks:
            return None
        lock = self.locks[path] = MemoryLock(self, path)
        return lock

    # The tree ------------------------------------------------------------------------------------

    def _find(self, path: str) -> _Node | None:
        node: _Node | None = self._root
        for name in _parts(path):
            if not isinstance(node, _DirNode):
                return None
            node = node.entries.get(name)
        return node

    def _dir(self, path: str) -> _DirNode:
        node = self._find(path)
        if not isinstance(node, _DirNode):
            raise _not_found(path)
        return node

    def _parent(self, path: str) -> tuple[_DirNode, str]:
        directory, _, name = path.rpartition("/")
        return self._dir(directory), name

    def _file(self, path: str, *, create: bool = False) -> _FileNode:
        node = self._find(path)
        if node is None and create:
            directory, name = self._parent(path)
            node = _FileNode()
            directory.change({name: node})
        if not isinstance(node, _FileNode):
            raise _not_found(path)
        return node


def _sync_tree(node: _Node) -> None:
    node.sync()
    if isinstance(node, _DirNode):
        for child in node.entries.values():
            _sync_tree(child)


def _unmap(directory: _DirNode) -> None:
    """Stores into a mapping of a process that is gone reach the file no more."""
    for node in directory.entries.values():
        if isinstance(node, _DirNode):
            _unmap(node)
        elif node.mapped:
            node.data = bytearray(node.data)


def _unsynced(directory: _DirNode, path: str) -> Iterator[tuple[str, int]]:
    for name, node in directory.entries.items():
        if isinstance(node, _DirNode):
            yield from _unsynced(node, f"{path}/{name}")
        elif node.pending:
            yield f"{path}/{name}", sum(len(data) for _, data in node.pending)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _not_found(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

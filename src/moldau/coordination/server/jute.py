"""Jute, ZooKeeper's serialisation: big-endian numbers, and bytes with their length before them.

A reader never reads behind its frame, and makes nothing larger than what was sent.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from moldau.coordination.store import Stat

T = TypeVar("T")

INT: Final = struct.Struct(">i")
LONG: Final = struct.Struct(">q")
_STAT: Final = struct.Struct(">qqqqiiiqiiq")
_NO_ACL_CHANGES: Final = 0


class MalformedError(Exception):
    """These bytes are no message of the protocol."""


class Reader:
    """Takes one value after the other from a frame."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._position

    def integer(self) -> int:
        (value,) = INT.unpack(self._take(INT.size))
        return int(value)

    def long(self) -> int:
        (value,) = LONG.unpack(self._take(LONG.size))
        return int(value)

    def boolean(self) -> bool:
        return self._take(1) != b"\0"

    def buffer(self) -> bytes:
        """Bytes; none at all (a length of -1) are as good as no bytes."""
        length = self.integer()
        return b"" if length == -1 else self._take(length)

    def string(self) -> str:
        return text(self.buffer())

    def vector(self, read: Callable[[], T], most: int) -> list[T] | None:
        """Returns a list; None if it has more values than are taken, and none is read then."""
        count = self.integer()
        if count > self.left:
            raise MalformedError(f"a list of {count} values in {self.left} bytes")
        return [read() for _ in range(count)] if count <= most else None

    def _take(self, size: int) -> bytes:
        begin, end = self._position, self._position + size
        if size < 0 or end > len(self._data):
            raise MalformedError(f"{size} bytes wanted, {self.left} left")
        self._position = end
        return self._data[begin:end]


def text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"a string is not UTF-8: {error}") from None


def integer(value: int) -> bytes:
    return INT.pack(value)


def buffer(value: bytes) -> bytes:
    return INT.pack(len(value)) + value


def string(value: str) -> bytes:
    return buffer(value.encode())


def strings(values: Sequence[str]) -> bytes:
    return b"".join([INT.pack(len(values)), *map(string, values)])


def stat(value: Stat) -> bytes:
    return _STAT.pack(
        value.czxid,
        value.mzxid,
        value.ctime,
        value.mtime,
        value.version,
        value.cversion,
        _NO_ACL_CHANGES,
        value.ephemeral_owner,
        value.data_length,
        value.num_children,
        value.pzxid,
    )

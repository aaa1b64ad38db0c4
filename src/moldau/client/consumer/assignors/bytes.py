"""The one encoding that subscriptions, assignments and user data share: partitions by topic."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable

from moldau.model import TopicPartition

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class Cursor:
    """Reads forward; ``ValueError`` or ``struct.error`` where the bytes end too early."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.data)

    def int16(self) -> int:
        (value,) = _INT16.unpack_from(self.data, self.position)
        self.position += 2
        return int(value)

    def int32(self) -> int:
        (value,) = _INT32.unpack_from(self.data, self.position)
        self.position += 4
        return int(value)

    def count(self) -> int:
        """The length of an array, each of whose elements takes two bytes at least."""
        count = self.int32()
        if not 0 <= count <= (len(self.data) - self.position) // 2:
            raise ValueError(f"{count} elements cannot be in the bytes that are left")
        return count

    def nullable_string(self) -> str | None:
        size = self.int16()
        return None if size < 0 else self._take(size).decode()

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise ValueError("a string that must not be null is")
        return text

    def nullable_bytes(self) -> bytes | None:
        size = self.int32()
        return None if size < 0 else self._take(size)

    def partitions(self) -> tuple[TopicPartition, ...]:
        found: list[TopicPartition] = []
        for _ in range(self.count()):
            topic = self.string()
            found += [TopicPartition(topic, self.int32()) for _ in range(self.count())]
        return tuple(found)

    def _take(self, size: int) -> bytes:
        taken = self.data[self.position : self.position + size]
        if len(taken) < size:
            raise ValueError("a field is cut off")
        self.position += size
        return taken


def put_string(out: bytearray, text: str | None) -> bytearray:
    if text is None:
        return out + _INT16.pack(-1)
    encoded = text.encode()
    return out + _INT16.pack(len(encoded)) + encoded


def put_bytes(out: bytearray, data: bytes | None) -> bytearray:
    if data is None:
        return out + _INT32.pack(-1)
    return out + _INT32.pack(len(data)) + data


def put_partitions(out: bytearray, partitions: Iterable[TopicPartition]) -> bytearray:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        topics[topic].append(partition)
    out = out + _INT32.pack(len(topics))
    for topic in sorted(topics):
        out = put_string(out, topic) + _INT32.pack(len(topics[topic]))
        for partition in topics[topic]:
            out += _INT32.pack(partition)
    return out

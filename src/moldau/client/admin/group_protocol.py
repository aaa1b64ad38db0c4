"""What classic consumers tell each other through the broker: subscriptions and assignments.

The broker passes these bytes on without reading them. Layout: a version, then fields that every
version has at the same place (``ConsumerProtocolSubscription`` and ``…Assignment`` in Kafka).
"""

from __future__ import annotations

import struct

from moldau.model import TopicPartition

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class _Cursor:
    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def int16(self) -> int:
        (value,) = _INT16.unpack_from(self.data, self.position)
        self.position += 2
        return int(value)

    def int32(self) -> int:
        (value,) = _INT32.unpack_from(self.data, self.position)
        self.position += 4
        return int(value)

    def string(self) -> str:
        size = self.int16()
        text = self.data[self.position : self.position + size]
        if size < 0 or len(text) < size:
            raise ValueError("a string that is cut off")
        self.position += size
        return text.decode()


def read_subscription(data: bytes) -> tuple[str, ...]:
    """Topic names of a member's subscription; none if the bytes are no consumer's."""
    try:
        cursor = _Cursor(data)
        cursor.int16()
        return tuple(cursor.string() for _ in range(cursor.int32()))
    except (struct.error, ValueError):
        return ()


def read_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Partitions of a member's assignment; none if the bytes are no consumer's."""
    try:
        cursor = _Cursor(data)
        cursor.int16()
        found = []
        for _ in range(cursor.int32()):
            topic = cursor.string()
            found += [TopicPartition(topic, cursor.int32()) for _ in range(cursor.int32())]
        return tuple(sorted(found))
    except (struct.error, ValueError):
        return ()

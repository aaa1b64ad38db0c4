"""Writing the primitive types of the Kafka protocol: functions that give the bytes of a field."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

_INT16 = Struct(">h")
int8: Final = Struct(">b").pack
int16: Final = _INT16.pack
int32: Final = Struct(">i").pack
int64: Final = Struct(">q").pack

NO_TAGS: Final = b"\0"


def varint(value: int) -> bytes:
    """An unsigned variable-length integer."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def nullable_string(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else string(text)


def compact_string(text: str) -> bytes:
    data = text.encode()
    return varint(len(data) + 1) + data


def compact_nullable_string(text: str | None) -> bytes:
    return b"\0" if text is None else compact_string(text)


def sized_bytes(data: bytes) -> bytes:
    return int32(len(data)) + data


def compact_bytes(data: bytes) -> bytes:
    return varint(len(data) + 1) + data


def array(elements: Sequence[bytes]) -> bytes:
    return int32(len(elements)) + b"".join(elements)


def compact_array(elements: Sequence[bytes]) -> bytes:
    return varint(len(elements) + 1) + b"".join(elements)


def tags(fields: Iterable[tuple[int, bytes]]) -> bytes:
    """Tagged fields, in the order of their tags."""
    parts = [varint(tag) + varint(len(data)) + data for tag, data in fields]
    return varint(len(parts)) + b"".join(parts)

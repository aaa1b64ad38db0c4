"""The producer snapshot file: what a log knows about its producers at one offset.

Version (int16, 1), CRC-32C of the rest (uint32), number of entries (int32), then per producer: id
(int64), epoch (int16), last sequence (int32), last offset (int64), offset delta (int32), timestamp
(int64), coordinator epoch (int32), first offset of an open transaction or -1 (int64).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from crc32c import crc32c

from moldau.log.errors import CorruptSnapshotError

_HEADER: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_VERSION: Final = 1


class SnapshotEntry(NamedTuple):
    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEADER.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[SnapshotEntry]:
    start = _HEADER.size + _COUNT.size
    if len(data) < start:
        raise CorruptSnapshotError(f"a producer snapshot of {len(data)} bytes is cut off")
    version, crc = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshotError(f"unknown producer snapshot version {version}")
    if crc32c(data[_HEADER.size :]) != crc:
        raise CorruptSnapshotError("the CRC of the producer snapshot is wrong")
    (count,) = _COUNT.unpack_from(data, _HEADER.size)
    if len(data) != start + count * _ENTRY.size:
        raise CorruptSnapshotError(f"{count} producers do not fit {len(data)} bytes")
    return [SnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(data[start:])]

"""Record batches by hand, so that a test can make every field wrong.

Written from the published layout of the format, apart from the code under test.
"""

from __future__ import annotations

import gzip
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from crc32c import crc32c

BEFORE_CRC = struct.Struct(">qiibI")
AFTER_CRC = struct.Struct(">hiqqqhii")

GZIP = 1
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


@dataclass(frozen=True, slots=True)
class Batch:
    """The fields of a batch; ``encode`` makes the bytes, right or wrong as they are."""

    records: Sequence[tuple[bytes | None, bytes | None]]
    timestamp_ms: int | None = None
    base_offset: int = 0
    magic: int = 2
    attributes: int = 0
    last_offset_delta: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int | None = None
    crc_change: int = 0
    length_change: int = 0
    payload: bytes | None = None
    """Encoded records, instead of ``records``."""

    def encode(self) -> bytes:
        now_ms = int(time.time() * 1000) if self.timestamp_ms is None else self.timestamp_ms
        payload = self.payload
        if payload is None:
            payload = b"".join(
                encode_record(delta, key, value) for delta, (key, value) in enumerate(self.records)
            )
        if self.attributes & 7 == GZIP:
            payload = gzip.compress(payload)
        last = len(self.records) - 1 if self.last_offset_delta is None else self.last_offset_delta
        number = len(self.records) if self.count is None else self.count
        body = (
            AFTER_CRC.pack(
                self.attributes,
                last,
                now_ms,
                now_ms,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                number,
            )
            + payload
        )
        length = len(body) + BEFORE_CRC.size - 12 + self.length_change
        crc = crc32c(body) ^ self.crc_change
        return BEFORE_CRC.pack(self.base_offset, length, -1, self.magic, crc) + body


def old_message(magic: int) -> bytes:
    """One message of format 0 or 1, which brokers since Kafka 4.0 do not take any more."""
    body = struct.pack(">bb", magic, 0)
    if magic == 1:
        body += struct.pack(">q", int(time.time() * 1000))
    body += struct.pack(">i3si5s", 3, b"key", 5, b"value")
    return struct.pack(">qiI", 0, len(body) + 4, 0) + body


def encode_record(
    delta: int,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    time_delta: int = 0,
    headers: bytes = b"\0",
    size_change: int = 0,
) -> bytes:
    body = b"\0" + encode_varint(time_delta) + encode_varint(delta)
    body += _bytes(key) + _bytes(value) + headers
    return encode_varint(len(body) + size_change) + body


def _bytes(data: bytes | None) -> bytes:
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


def encode_varint(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def relabelled(batch: bytearray, count: int) -> bytearray:
    """A copy whose header speaks of ``count`` records; all else, and the CRC, is right."""
    copy = bytearray(batch)
    struct.pack_into(">i", copy, 23, count - 1)
    struct.pack_into(">i", copy, 57, count)
    struct.pack_into(">I", copy, 17, crc32c(bytes(copy[21:])))
    return copy

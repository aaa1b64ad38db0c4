"""The same batch under another codec, for topics whose ``compression.type`` is not the producer's.

Offsets, timestamps, sequence and producer stay as they are, and the encoded records too: only what
is around them is written anew.
"""

from __future__ import annotations

import struct

from moldau.records.batch import (
    ATTRIBUTES_OFFSET,
    COMPRESSION_MASK,
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    Buffer,
    write_crc,
)
from moldau.records.compression import Compression, compress
from moldau.records.reader import read_batch_header, read_payload

_LENGTH = struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")


def recompress(
    batch: Buffer,
    codec: int,
    level: int | None = None,
    *,
    check_crc: bool = False,
    limit: int | None = None,
) -> bytearray:
    """The one batch in ``batch`` with its records under ``codec``.

    ``limit`` bounds what the records may decompress to. The CRC is left to the caller by default:
    a broker has checked it when the batch arrived.
    """
    header = read_batch_header(batch, 0, check_crc=check_crc)
    payload = read_payload(batch, 0, header, limit=limit)
    result = bytearray(memoryview(batch)[:HEADER_SIZE])
    if payload:
        result += compress(codec, payload, level)
    else:
        codec = Compression.NONE
    size = len(result)
    _LENGTH.pack_into(result, LENGTH_OFFSET, size - LOG_OVERHEAD)
    attributes = header.attributes & ~COMPRESSION_MASK | codec
    _ATTRIBUTES.pack_into(result, ATTRIBUTES_OFFSET, attributes)
    write_crc(result, 0, size)
    return result

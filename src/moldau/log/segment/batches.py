"""Walking over the batches of a segment file without reading more than is needed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from moldau.machine.disk import File
from moldau.records.batch import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    crc_is_valid,
)
from moldau.records.errors import CorruptRecordError

_SCAN: Final = struct.Struct(">qi11xi")
"""Base offset, batch length, last offset delta: what a search by offset looks at."""
_SCAN_BYTES: Final = 8192
_SMALL_READ: Final = 4096
_LARGE_READ: Final = 262_144
_SMALL_BATCH: Final = 2048


def iter_file_headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Positions and headers of the whole batches in ``[position, end)``, up to the first bad one.

    Of large batches only the headers are read; small ones come many at a time.
    """
    unpack, make = HEADER.unpack_from, BatchHeader._make
    read = _SMALL_READ
    while position + HEADER_SIZE <= end:
        chunk = file.pread(min(read, end - position), position)
        limit = len(chunk) - HEADER_SIZE
        at = count = 0
        while at <= limit:
            header = make(unpack(chunk, at))
            size = header.batch_length + LOG_OVERHEAD
            if header.magic != MAGIC or size < HEADER_SIZE or position + at + size > end:
                return
            yield position + at, header
            at += size
            count += 1
        if count == 0:
            return
        read = _LARGE_READ if at // count < _SMALL_BATCH else _SMALL_READ
        position += at


def iter_file_batches(
    file: File, position: int, end: int, read_bytes: int = _LARGE_READ
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each batch with a valid CRC; stops at the first bad one."""
    unpack, make = HEADER.unpack_from, BatchHeader._make
    while position + HEADER_SIZE <= end:
        chunk = file.pread(min(read_bytes, end - position), position)
        at, limit = 0, len(chunk)
        view = memoryview(chunk)
        while at + HEADER_SIZE <= limit:
            header = make(unpack(chunk, at))
            size = header.batch_length + LOG_OVERHEAD
            if header.magic != MAGIC or size < HEADER_SIZE or position + at + size > end:
                return
            if at + size > limit:
                break
            if not crc_is_valid(chunk, at, size):
                return
            yield position + at, header, view[at : at + size]
            at += size
        if at == 0:
            # One batch larger than a read.
            if limit < HEADER_SIZE:
                return
            size = make(unpack(chunk, 0)).batch_length + LOG_OVERHEAD
            whole = file.pread(size, position)
            if len(whole) < size or not crc_is_valid(whole, 0, size):
                return
            yield position, make(unpack(whole, 0)), memoryview(whole)
            at = size
        position += at


class BatchPosition(NamedTuple):
    position: int
    size: int
    base_offset: int


def find_batch(file: File, position: int, end: int, offset: int) -> BatchPosition | None:
    """Returns the first batch in ``[position, end)`` whose last offset is at least ``offset``."""
    unpack = _SCAN.unpack_from
    while position + HEADER_SIZE <= end:
        chunk = file.pread(min(_SCAN_BYTES, end - position), position)
        limit = len(chunk) - HEADER_SIZE
        at = 0
        while at <= limit:
            base_offset, length, delta = unpack(chunk, at)
            if length < HEADER_SIZE - LOG_OVERHEAD:
                raise CorruptRecordError(f"{file.path}: batch of {length} bytes at {position + at}")
            if base_offset + delta >= offset:
                return BatchPosition(position + at, length + LOG_OVERHEAD, base_offset)
            at += length + LOG_OVERHEAD
        if at == 0:
            break
        position += at
    return None

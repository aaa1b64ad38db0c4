"""Passes over the encoded records of a batch that make no Record objects.

A broker of a compacted topic wants to know whether every record has a key, the log cleaner which
record has which key; both jump from record to record by their sizes. ``payload`` is always the
decompressed one, ``reader.read_payload`` gives it.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.records.batch import Buffer
from moldau.records.errors import InvalidRecordError
from moldau.records.malformed import bad_size, ends_early, trailing_bytes
from moldau.records.native import i64
from moldau.records.varint import INT32_BYTES, INT64_BYTES, finish_varint, read_varint


class RecordSpan(NamedTuple):
    """Where one encoded record lies in its payload, and what compaction asks about it."""

    start: int
    end: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def null_key_indexes(payload: Buffer, count: int) -> list[int]:
    """Which of the ``count`` records in ``payload`` (encoded, decompressed) have no key.

    For compacted topics, whose broker looks at every record but wants nothing more of it.
    """
    try:
        return _null_key_indexes(payload if isinstance(payload, bytes) else bytes(payload), count)
    except IndexError:
        raise ends_early(count) from None


def _null_key_indexes(data: bytes, count: int) -> list[int]:
    indexes: list[int] = []
    limit: i64 = len(data)
    pos: i64 = 0
    for index in range(count):
        size: i64 = data[pos]
        pos += 1
        if size < 0x80:
            size = (size >> 1) ^ -(size & 1)
        else:
            size, pos = finish_varint(data, pos, size, INT32_BYTES)
        end: i64 = pos + size
        if size < 0 or end > limit:
            raise bad_size(index, "the record", size, limit - pos)
        pos += 1
        while data[pos] >= 0x80:  # timestamp delta
            pos += 1
        pos += 1
        while data[pos] >= 0x80:  # offset delta
            pos += 1
        pos += 1
        if data[pos] == 1:  # zigzag for -1
            indexes.append(index)
        if pos >= end:
            raise InvalidRecordError(f"record {index}: its fields do not add up to its size")
        pos = end
    if pos != limit:
        raise trailing_bytes(count, limit - pos)
    return indexes


def has_null_key(payload: Buffer, count: int) -> bool:
    """Whether any of the ``count`` records in ``payload`` has no key."""
    return len(null_key_indexes(payload, count)) > 0


def record_spans(payload: Buffer, count: int) -> list[RecordSpan]:
    """Where each of the ``count`` records in ``payload`` lies, with its key and offset delta."""
    try:
        return _record_spans(payload if isinstance(payload, bytes) else bytes(payload), count)
    except IndexError:
        raise ends_early(count) from None


def _record_spans(data: bytes, count: int) -> list[RecordSpan]:
    spans: list[RecordSpan] = []
    limit: i64 = len(data)
    pos: i64 = 0
    key: bytes | None
    for index in range(count):
        start = pos
        size, pos = read_varint(data, pos, INT32_BYTES)
        end: i64 = pos + size
        if size < 0 or end > limit:
            raise bad_size(index, "the record", size, limit - pos)
        _, pos = read_varint(data, pos + 1, INT64_BYTES)  # timestamp delta, after the attributes
        offset_delta, pos = read_varint(data, pos, INT32_BYTES)
        size, pos = read_varint(data, pos, INT32_BYTES)
        if size == -1:
            key = None
        elif 0 <= size <= end - pos:
            key = data[pos : pos + size]
            pos += size
        else:
            raise bad_size(index, "its key", size, end - pos)
        size, pos = read_varint(data, pos, INT32_BYTES)
        if size < -1 or size > end - pos:
            raise bad_size(index, "its value", size, end - pos)
        spans.append(RecordSpan(start, end, offset_delta, key, size >= 0))
        pos = end
    if pos != limit:
        raise trailing_bytes(count, limit - pos)
    return spans

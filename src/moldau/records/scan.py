"""Where the encoded records of a batch lie, without making Record objects.

``payload`` is the decompressed one, ``reader.read_payload`` gives it.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.records.batch import Buffer
from moldau.records.malformed import bad_size, ends_early, trailing_bytes
from moldau.records.native import i64
from moldau.records.varint import INT32_BYTES, INT64_BYTES, read_varint


class RecordSpan(NamedTuple):
    """Where one encoded record lies in its payload, and what compaction asks about it."""

    start: int
    end: int
    offset_delta: int
    key: bytes | None
    has_value: bool


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

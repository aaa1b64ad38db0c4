"""The pass over encoded records: it says what a naive reader says, however the windows fall."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.records.strategies import codecs, moderate, record_lists, thorough

from moldau.records.batch import (
    ATTRIBUTES_OFFSET,
    COMPRESSION_MASK,
    HEADER_SIZE,
    read_header,
    write_crc,
)
from moldau.records.builder import build_batch
from moldau.records.compression import compress, open_stream
from moldau.records.errors import CorruptRecordError, InvalidRecordError
from moldau.records.reader import read_payload, read_records
from moldau.records.record import Record
from moldau.records.streams import PayloadStream
from moldau.records.varint import encode_varint
from moldau.records.walk import MAX_LISTED, RecordWalk

LIMIT = 10**6


class Cut(PayloadStream):
    """Gives bytes in pieces of chosen sizes, as a codec might."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        super().__init__(10**9)
        self._data = data
        self._sizes = sizes

    def _next(self, size: int) -> bytes:
        if self._sizes:
            size = self._sizes.pop(0)
        piece, self._data = self._data[:size], self._data[size:]
        return piece


def encoded(
    delta: int = 0,
    *,
    time: int = 0,
    key: bytes | None = None,
    value: bytes = b"v",
    tail: bytes = b"\0",
) -> bytes:
    body = b"\0" + encode_varint(time) + encode_varint(delta)
    body += b"\x01" if key is None else encode_varint(len(key)) + key
    body += encode_varint(len(value)) + value + tail
    return encode_varint(len(body)) + body


def naive(payload: bytes, count: int) -> bool:  # noqa: C901 (flat, as the format)
    """What the walk should say, in the plainest words there are."""
    at = 0

    def number(longest: int) -> int:
        nonlocal at
        result = shift = 0
        while True:
            byte = payload[at]
            at += 1
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift == 7 * longest:
                raise ValueError
        if result >= 1 << 64:
            raise ValueError
        return (result >> 1) ^ -(result & 1)

    def content(end: int, least: int) -> None:
        nonlocal at
        size = number(5)
        if size < least or size > end - at:
            raise ValueError
        at += max(size, 0)

    try:
        for index in range(count):
            size = number(5)
            end = at + size
            if size < 0 or end > len(payload):
                return False
            at += 1
            number(10)
            if number(5) != index:
                return False
            content(end, -1)
            content(end, -1)
            headers = number(5)
            if headers < 0 or headers > (end - at) // 2:
                return False
            for _ in range(headers):
                content(end, 0)
                content(end, -1)
            if at != end:
                return False
    except (IndexError, ValueError):
        return False
    return at == len(payload)


def accepts(payload: bytes, count: int) -> bool:
    try:
        RecordWalk(count).over(memoryview(payload))
    except InvalidRecordError:
        return False
    return True


def accepts_in_pieces(payload: bytes, count: int, sizes: list[int]) -> bool:
    try:
        RecordWalk(count).over_stream(Cut(payload, sizes))
    except InvalidRecordError:
        return False
    return True


@moderate
@given(record_lists(), codecs)
def test_every_batch_of_our_own_passes(records: list[Record], codec: int) -> None:
    batch = memoryview(build_batch(records, compression=codec))
    header = read_header(batch)
    walk = RecordWalk(len(records))
    if codec:
        walk.over_stream(open_stream(codec, batch[HEADER_SIZE:], LIMIT))
    else:
        walk.over(batch[HEADER_SIZE:])
    assert header.base_timestamp + walk.max_time == max(r.timestamp for r in records)
    assert (walk.keyless_count, walk.untimely_count) == (0, 0)


@thorough
@given(record_lists(), st.data())
def test_whatever_is_changed_the_verdict_is_the_naive_one(
    records: list[Record], data: st.DataObject
) -> None:
    payload = bytearray(read_payload(batch := build_batch(records), 0, read_header(batch)))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(payload) - 1))
        match data.draw(st.integers(0, 3)):
            case 0:
                payload[at] = data.draw(st.integers(0, 255))
            case 1:
                payload[at] ^= 1 << data.draw(st.integers(0, 7))
            case 2:
                del payload[at : at + data.draw(st.integers(1, 3))]
            case 3:
                payload[at:at] = data.draw(st.binary(min_size=1, max_size=3))
        if not payload:
            break
    count = max(len(records) + data.draw(st.integers(-1, 1)), 1)
    changed = bytes(payload)
    verdict = naive(changed, count)
    assert accepts(changed, count) is verdict
    sizes = data.draw(st.lists(st.integers(1, 40), max_size=60))
    assert accepts_in_pieces(changed, count, sizes) is verdict
    if verdict:
        _reads_in_full(changed, count)


@thorough
@given(record_lists(), codecs, st.data())
def test_a_changed_batch_is_refused_or_read_in_full(
    records: list[Record], codec: int, data: st.DataObject
) -> None:
    """Under its codec, with a CRC that is right again."""
    batch = build_batch(records, compression=codec)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(ATTRIBUTES_OFFSET, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    write_crc(batch, 0, len(batch))
    header = read_header(batch)
    count = header.records_count
    if count <= 0 or header.last_offset_delta != count - 1 or header.compression > 4:
        return  # for the header alone
    walk = RecordWalk(count)
    payload = memoryview(batch)[HEADER_SIZE:]
    try:
        if header.compression:
            walk.over_stream(open_stream(header.compression, payload, LIMIT))
        else:
            walk.over(payload)
    except (InvalidRecordError, CorruptRecordError):
        return
    read = read_records(batch, limit=LIMIT)
    assert [record.offset - header.base_offset for record in read] == list(range(count))


def _reads_in_full(payload: bytes, count: int) -> None:
    batch = build_batch([Record(index, 0, None, b"") for index in range(count)])
    batch[HEADER_SIZE:] = payload
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    write_crc(batch, 0, len(batch))
    assert [record.offset for record in read_records(batch)] == list(range(count))


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 200_000, 1_000_000])
def test_values_larger_than_a_window_are_passed_over(size: int) -> None:
    payload = b"".join(encoded(delta, value=bytes(size)) for delta in range(3))
    assert accepts(payload, 3)
    for sizes in ([], [1] * 200, [65_536] * 4):
        assert accepts_in_pieces(payload, 3, list(sizes))
    for wrong in (payload[:-1], payload + b"\0", payload[: size + 20]):
        assert not accepts(wrong, 3)
        assert not accepts_in_pieces(wrong, 3, [])


def test_headers_larger_than_a_window_are_passed_over() -> None:
    name, value = b"n" * 70_000, b"v" * 200_000
    tail = encode_varint(2) + 2 * (
        encode_varint(len(name)) + name + encode_varint(len(value)) + value
    )
    payload = encoded(0, tail=tail) + encoded(1)
    assert naive(payload, 2)
    assert accepts(payload, 2)
    assert accepts_in_pieces(payload, 2, [100] * 3)
    over_the_end = payload[: -len(encoded(1)) - 1]
    assert not accepts(over_the_end, 1)
    assert not accepts_in_pieces(over_the_end, 1, [])


def test_windows_end_anywhere() -> None:
    payload = b"".join(encoded(n, time=n, key=b"k" * (n % 7), value=b"v" * n) for n in range(1000))
    assert len(payload) > 3 * 65_536
    assert accepts(payload, 1000)
    for size in (1, 2, 3, 7, 26, 27, 64, 1000):
        assert accepts_in_pieces(payload, 1000, [size] * (len(payload) // size + 1))


def test_records_that_a_topic_does_not_want_are_counted_and_a_hundred_are_named() -> None:
    count = 1000
    payload = b"".join(
        encoded(n, time=n, key=None if n % 2 else b"k", value=b"") for n in range(count)
    )
    walk = RecordWalk(count, True, 0, 499)
    walk.over(memoryview(payload))
    assert walk.keyless_count == 500
    assert walk.keyless == list(range(1, 200, 2))
    assert walk.untimely_count == 250  # those without a key are refused for that
    assert [index for index, _ in walk.untimely] == list(range(500, 700, 2))
    assert len(walk.keyless) == len(walk.untimely) == MAX_LISTED
    assert walk.max_time == 999


def test_a_record_without_a_time_is_never_untimely() -> None:
    payload = encoded(0, time=-5) + encoded(1, time=-6)
    walk = RecordWalk(2, False, 0, 10, -5)
    walk.over(memoryview(payload))
    assert walk.untimely == [(1, -6)]


@pytest.mark.parametrize("codec", range(5))
def test_a_search_ends_at_the_first_record_that_fits(codec: int) -> None:
    times = [5, 9, 3, 9, 12]
    payload = b"".join(encoded(10 * n, time=time) for n, time in enumerate(times))
    packed = compress(codec & COMPRESSION_MASK, payload)

    def found(time: int, offset: int) -> tuple[int, int] | None:
        walk = RecordWalk(len(times))
        walk.search(time, offset)
        if codec:
            walk.over_stream(open_stream(codec, packed, LIMIT))
        else:
            walk.over(memoryview(packed))
        return (walk.found_time, walk.found_offset) if walk.found else None

    assert found(0, 0) == (5, 0)
    assert found(6, 0) == (9, 10)
    assert found(6, 11) == (9, 30)
    assert found(10, 0) == (12, 40)
    assert found(13, 0) is None

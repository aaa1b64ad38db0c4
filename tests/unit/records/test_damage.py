"""Bytes that are no batch, or one that lies: our errors, nothing else, and no large allocation."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.records.strategies import INT32, codecs, moderate, record_lists, thorough

from moldau.errors import KafkaError
from moldau.records.batch import (
    ATTRIBUTES_OFFSET,
    BASE_OFFSET_OFFSET,
    BASE_TIMESTAMP_OFFSET,
    HEADER,
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    RECORDS_COUNT_OFFSET,
    iter_headers,
    write_crc,
)
from moldau.records.builder import build_batch
from moldau.records.errors import CorruptRecordError, InvalidRecordError
from moldau.records.reader import read_batch_header, read_columns, read_payload, read_records
from moldau.records.recompress import recompress
from moldau.records.record import Record
from moldau.records.scan import record_spans
from moldau.records.varint import encode_varint
from moldau.records.walk import RecordWalk

OURS = (CorruptRecordError, InvalidRecordError)


def walk(batch: bytes | bytearray) -> None:
    header = read_batch_header(batch, check_crc=False)
    payload = read_payload(batch, 0, header, limit=10**6)
    RecordWalk(header.records_count).over(memoryview(payload))


def scan_spans(batch: bytes | bytearray) -> object:
    header = read_batch_header(batch, check_crc=False)
    return record_spans(read_payload(batch, 0, header, limit=10**6), header.records_count)


READERS: list[Callable[[bytes | bytearray], Any]] = [
    lambda batch: read_records(batch, check_crc=False, limit=10**6),
    lambda batch: read_columns(batch, check_crc=False, limit=10**6),
    lambda batch: recompress(batch, 1, limit=10**6),
    lambda batch: list(iter_headers(batch)),
    walk,
    scan_spans,
]


def batch_of(payload: bytes, count: int, last_offset_delta: int = 100) -> bytearray:
    """A batch with a right CRC around any bytes at all."""
    batch = bytearray(HEADER_SIZE) + payload
    length = len(batch) - LOG_OVERHEAD
    HEADER.pack_into(batch, 0, 0, length, -1, 2, 0, 0, last_offset_delta, 0, 0, -1, -1, -1, count)
    write_crc(batch, 0, len(batch))
    return batch


def record(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


@thorough
@given(record_lists(), codecs, st.data())
def test_changed_bytes_only_give_our_errors(
    records: list[Record], codec: int, data: st.DataObject
) -> None:
    batch = build_batch(records, compression=codec)
    for _ in range(data.draw(st.integers(1, 5))):
        position = data.draw(st.integers(LENGTH_OFFSET, len(batch) - 1))
        batch[position] = data.draw(st.integers(0, 255))
    for reader in READERS:
        with suppress(*OURS):
            reader(batch)


@moderate
@given(record_lists(), codecs, st.data())
def test_cut_batches_only_give_our_errors(
    records: list[Record], codec: int, data: st.DataObject
) -> None:
    batch = build_batch(records, compression=codec)
    cut = bytes(batch[: data.draw(st.integers(0, len(batch) - 1))])
    for reader in READERS[:3]:
        with pytest.raises(CorruptRecordError):
            reader(cut)
    assert list(iter_headers(cut)) == []


@thorough
@given(st.binary(max_size=120), INT32, st.integers(-1, 50))
def test_garbage_instead_of_records_only_gives_our_errors(
    payload: bytes, count: int, last_offset_delta: int
) -> None:
    for batch in (
        batch_of(payload, count, last_offset_delta),
        batch_of(payload, min(abs(count), 5), last_offset_delta),
    ):
        for reader in READERS:
            with suppress(*OURS):
                reader(batch)


@moderate
@given(st.binary(max_size=200))
def test_garbage_instead_of_a_batch_only_gives_our_errors(data: bytes) -> None:
    for reader in READERS:
        with suppress(*OURS):
            reader(data)


@moderate
@given(record_lists())
def test_any_cut_of_the_payload_is_noticed(records: list[Record]) -> None:
    payload = bytes(build_batch(records)[HEADER_SIZE:])
    for cut in range(0, len(payload), max(1, len(payload) // 20)):
        with pytest.raises(InvalidRecordError):
            read_records(batch_of(payload[:cut], len(records)))


def test_a_wrong_crc_is_corrupt_unless_it_is_not_looked_at() -> None:
    batch = build_batch([Record(0, 0, None, b"value")])
    batch[-2] ^= 1
    with pytest.raises(CorruptRecordError, match="CRC"):
        read_records(batch)
    assert read_records(batch, check_crc=False)[0].value == b"valud"


@pytest.mark.parametrize(("change", "error"), [(1, "ends before"), (-1, "left after")])
def test_a_wrong_record_count_is_invalid(change: int, error: str) -> None:
    records = [Record(n, 0, b"k", b"v") for n in range(3)]
    batch = build_batch(records)
    struct.pack_into(">i", batch, RECORDS_COUNT_OFFSET, 3 + change)
    write_crc(batch, 0, len(batch))
    for reader in (*READERS[:2], walk, scan_spans):
        with pytest.raises(InvalidRecordError, match=error):
            reader(batch)


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_a_negative_record_count_is_invalid(count: int) -> None:
    with pytest.raises(InvalidRecordError, match="cannot have"):
        read_records(batch_of(b"", count))


def test_the_largest_record_count_allocates_nothing() -> None:
    with pytest.raises(InvalidRecordError, match="ends before"):
        read_records(batch_of(b"", 2**31 - 1))


def test_an_empty_batch_has_no_records() -> None:
    for codec in range(8):
        batch = batch_of(b"", 0)
        struct.pack_into(">h", batch, ATTRIBUTES_OFFSET, codec)
        write_crc(batch, 0, len(batch))
        assert read_records(batch) == []


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unassigned_codec_is_invalid(codec: int) -> None:
    batch = build_batch([Record(0, 0, None, b"v")])
    struct.pack_into(">h", batch, ATTRIBUTES_OFFSET, codec)
    write_crc(batch, 0, len(batch))
    with pytest.raises(InvalidRecordError, match="unknown compression"):
        read_records(batch)


@pytest.mark.parametrize(
    ("magic", "error"), [(0, InvalidRecordError), (1, InvalidRecordError), (3, CorruptRecordError)]
)
def test_other_message_formats_are_not_read(magic: int, error: type[KafkaError]) -> None:
    batch = build_batch([Record(0, 0, None, b"v")])
    struct.pack_into(">b", batch, MAGIC_OFFSET, magic)
    with pytest.raises(error):
        read_records(batch)


BODY = b"\x00" + encode_varint(0) + encode_varint(0)  # attributes, timestamp and offset delta


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (encode_varint(-1), "the record claims -1"),
        (encode_varint(-1000), "the record claims -1000"),
        (encode_varint(2**31 - 1) + bytes(10), "the record claims 2147483647"),
        (b"\xff" * 20, "too long"),
        (b"", "ends before"),
        (record(b""), "ends before"),
        (record(b"\x00" + b"\xff" * 10 + b"\x01"), "does not fit"),
        (record(b"\x00\x00" + b"\x80" * 6 + b"\x00"), "too long"),
        (record(b"\x00\x00" + encode_varint(-1) + b"\x01\x01\x00"), "offset delta -1"),
        (record(b"\x00\x00" + encode_varint(101) + b"\x01\x01\x00"), "offset delta 101"),
        (record(BODY + encode_varint(-2) + b"\x01\x00"), "its key claims -2"),
        (record(BODY + encode_varint(3) + b"\x01\x00"), "its key claims 3"),
        (record(BODY + encode_varint(2**31 - 1)), "its key claims 2147483647"),
        (record(BODY + b"\x01" + encode_varint(-2) + b"\x00"), "its value claims -2"),
        (record(BODY + b"\x01" + encode_varint(2) + b"\x00"), "its value claims 2"),
        (record(BODY + b"\x01\x01" + encode_varint(-1)), "-1 headers"),
        (record(BODY + b"\x01\x01" + encode_varint(2**31 - 1)), "2147483647 headers"),
        (record(BODY + b"\x01\x01" + encode_varint(2) + bytes(3)), "2 headers in 3"),
        (record(BODY + b"\x01\x01\x02" + encode_varint(-1) + b"\x00"), "name claims -1"),
        (record(BODY + b"\x01\x01\x02" + encode_varint(5) + b"a\x00"), "name claims 5"),
        (record(BODY + b"\x01\x01\x02\x02a" + encode_varint(-2)), "header's value claims -2"),
        (record(BODY + b"\x01\x01\x02\x02a" + encode_varint(9)), "header's value claims 9"),
        (record(BODY + b"\x01\x01\x00" + b"more"), "do not add up"),
        (record(BODY + b"\x01\x01"), "ends before"),
        (record(BODY + b"\x01\x01") + b"\x00", "do not add up"),
        (record(BODY + b"\x01\x01\x00") + b"\x00", "left after"),
    ],
)
def test_lies_within_a_record_are_invalid(payload: bytes, error: str) -> None:
    with pytest.raises(InvalidRecordError, match=error):
        read_records(batch_of(payload, 1))
    with pytest.raises(InvalidRecordError, match=error):
        read_columns(batch_of(payload, 1))


@pytest.mark.parametrize(
    "payload",
    [
        encode_varint(-1),
        encode_varint(50),
        record(b"\x00\x00\x00"),
        record(b"\x00\x80\x80") + record(BODY + b"\x01\x01\x00"),
        record(BODY + b"\x01\x01\x00") + b"\x00",
    ],
)
def test_scans_notice_sizes_that_do_not_fit(payload: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        record_spans(payload, 1)
    with pytest.raises(InvalidRecordError):
        RecordWalk(1).over(memoryview(payload))


def test_a_header_name_that_is_no_utf8_is_read_with_replacements() -> None:
    payload = record(BODY + b"\x01\x01\x02\x04\xffa\x02z")
    (read,) = read_records(batch_of(payload, 1))
    assert read.headers == (("\ufffda", b"z"),)


def test_sums_beyond_64_bits_do_not_wrap() -> None:
    payload = record(b"\x00" + encode_varint(2**63 - 1) + encode_varint(5) + b"\x01\x01\x00")
    batch = batch_of(payload, 1)
    struct.pack_into(">q", batch, BASE_OFFSET_OFFSET, 2**63 - 1)
    struct.pack_into(">q", batch, BASE_TIMESTAMP_OFFSET, 2**63 - 1)
    (read,) = read_records(batch, check_crc=False)
    assert (read.offset, read.timestamp) == (2**63 + 4, 2**64 - 2)
    columns = read_columns(batch, check_crc=False)
    assert (columns.offsets, columns.timestamps) == ([2**63 + 4], [2**64 - 2])


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_compressed_batch_is_bounded_when_read(codec: int) -> None:
    batch = build_batch([Record(0, 0, None, bytes(200_000))], compression=codec)
    assert len(read_records(batch, limit=300_000)) == 1
    for reader in (read_records, read_columns):
        with pytest.raises(InvalidRecordError, match="more than"):
            reader(batch, limit=100_000)

"""Build, then read: everything that went in comes out, under every codec."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.records.strategies import batch_fields, codecs, moderate, record_lists

from moldau.records.batch import HEADER_SIZE, LOG_APPEND_TIME, iter_headers, read_header
from moldau.records.builder import BatchBuilder, build_batch, record_size_bound
from moldau.records.compression import Compression
from moldau.records.reader import (
    read_batch_header,
    read_columns,
    read_payload,
    read_records,
)
from moldau.records.record import Record
from moldau.records.scan import record_spans


def expected_timestamps(records: list[Record], timestamp_type: int) -> list[int]:
    if timestamp_type == LOG_APPEND_TIME:
        return [max(record.timestamp for record in records)] * len(records)
    return [record.timestamp for record in records]


@moderate
@given(record_lists(), codecs, batch_fields, st.integers(0, 2**62))
def test_records_and_fields_come_back(
    records: list[Record], codec: Compression, fields: dict[str, Any], base_offset: int
) -> None:
    data = build_batch(records, compression=codec, base_offset=base_offset, **fields)
    timestamps = expected_timestamps(records, fields["timestamp_type"])

    header = read_header(data)
    assert header.size == len(data)
    assert header.base_offset == base_offset
    assert header.last_offset == base_offset + len(records) - 1
    assert header.records_count == len(records)
    assert header.compression == codec
    assert header.base_timestamp == records[0].timestamp
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert header.producer_id == fields["producer_id"]
    assert header.producer_epoch == fields["producer_epoch"]
    assert header.base_sequence == fields["base_sequence"]
    assert header.partition_leader_epoch == fields["leader_epoch"]
    assert header.is_transactional is fields["transactional"]
    assert header.is_control is fields["control"]
    assert header.timestamp_type == fields["timestamp_type"]
    assert not header.has_delete_horizon

    assert read_records(data) == [
        Record(base_offset + index, timestamp, record.key, record.value, record.headers)
        for index, (record, timestamp) in enumerate(zip(records, timestamps, strict=True))
    ]


@moderate
@given(st.data(), codecs, st.integers(0, 2**40))
def test_offsets_with_gaps_come_back(
    data: st.DataObject, codec: Compression, base_offset: int
) -> None:
    records = data.draw(record_lists(gaps=True, base_offset=base_offset))
    batch = build_batch(records, compression=codec, base_offset=base_offset, keep_offsets=True)
    assert read_records(batch) == records
    assert read_header(batch).last_offset == records[-1].offset
    assert read_header(batch).base_offset == base_offset


@moderate
@given(record_lists(), codecs)
def test_columns_are_the_records_field_by_field(records: list[Record], codec: Compression) -> None:
    columns = read_columns(build_batch(records, compression=codec))
    assert columns.offsets == [record.offset for record in records]
    assert columns.timestamps == [record.timestamp for record in records]
    assert columns.keys == [record.key for record in records]
    assert columns.values == [record.value for record in records]
    assert columns.headers == [record.headers for record in records]


@moderate
@given(record_lists(gaps=True), codecs)
def test_scans_agree_with_the_records(records: list[Record], codec: Compression) -> None:
    batch = build_batch(records, compression=codec, keep_offsets=True)
    payload = read_payload(batch, 0, read_batch_header(batch))
    for buffer in (payload, bytearray(payload), memoryview(payload)):
        spans = record_spans(buffer, len(records))
        assert [(span.offset_delta, span.key, span.has_value) for span in spans] == [
            (record.offset, record.key, record.value is not None) for record in records
        ]
    assert [span.start for span in spans] == [0, *(span.end for span in spans[:-1])]
    assert spans[-1].end == len(payload)


@moderate
@given(record_lists())
def test_a_batch_is_read_from_any_kind_of_buffer(records: list[Record]) -> None:
    batch = build_batch(records)
    padded = b"abc" + bytes(batch) + b"xyz"
    for buffer in (padded, bytearray(padded), memoryview(padded), memoryview(bytearray(padded))):
        assert read_records(buffer, 3) == records
        assert read_records(buffer, 3, check_crc=False) == records


@moderate
@given(st.lists(record_lists(), min_size=1, max_size=4), codecs)
def test_batches_in_a_row_are_read_one_by_one(
    lists: list[list[Record]], codec: Compression
) -> None:
    data = b"".join(build_batch(records, compression=codec) for records in lists)
    assert [read_records(data, pos) for pos, _ in iter_headers(data)] == lists


@moderate
@given(record_lists(), codecs)
def test_the_builder_makes_the_same_batch_record_by_record(
    records: list[Record], codec: Compression
) -> None:
    builder = BatchBuilder(compression=codec)
    assert (builder.count, builder.size, builder.estimated_size) == (0, HEADER_SIZE, HEADER_SIZE)
    for index, record in enumerate(records):
        before = builder.size
        bound = record_size_bound(record.key, record.value, record.headers)
        assert builder.append(record.timestamp, record.key, record.value, record.headers) == index
        assert before < builder.size <= before + bound
        assert builder.count == index + 1
    size = builder.size
    batch = builder.build(base_offset=9, producer_id=4, producer_epoch=1, base_sequence=0)
    assert batch == build_batch(
        records,
        compression=codec,
        base_offset=9,
        producer_id=4,
        producer_epoch=1,
        base_sequence=0,
    )
    if codec is Compression.NONE:
        assert len(batch) == size


def test_headers_may_be_any_sequence_for_the_builder() -> None:
    builder = BatchBuilder()
    builder.append(0, None, b"v", [("a", b"1"), ("a", None)])
    assert read_records(builder.build())[0].headers == (("a", b"1"), ("a", None))


def test_the_size_is_estimated_from_the_expected_ratio() -> None:
    plain = BatchBuilder(compression_ratio=0.1)
    packed = BatchBuilder(compression=Compression.ZSTD, compression_ratio=0.1)
    for builder in (plain, packed):
        builder.append(0, None, bytes(10_000))
    assert plain.estimated_size == plain.size > 10_000
    assert 1_000 < packed.estimated_size < 1_200
    assert packed.size == plain.size


@given(record_lists(), codecs)
def test_encoded_records_fill_a_batch(records: list[Record], codec: Compression) -> None:
    times = [record.timestamp for record in records]
    plain = build_batch(records)
    builder = BatchBuilder(compression=codec)
    builder.fill(memoryview(plain)[HEADER_SIZE:], len(records), times[0], max(times))
    assert (builder.count, builder.size) == (len(records), len(plain))
    assert builder.build(base_offset=3) == build_batch(records, base_offset=3, compression=codec)


def test_only_an_empty_batch_is_filled() -> None:
    builder = BatchBuilder()
    with pytest.raises(ValueError, match="not without records"):
        builder.fill(b"", 0, 0, 0)
    builder.append(0, None, b"x")
    with pytest.raises(ValueError, match="only an empty batch"):
        builder.fill(b"abc", 1, 0, 0)


def test_a_batch_is_built_once() -> None:
    builder = BatchBuilder()
    builder.append(0, None, b"v")
    builder.build()
    with pytest.raises(ValueError, match="built"):
        builder.append(0, None, b"w")
    with pytest.raises(ValueError, match="once"):
        builder.build()


def test_a_batch_without_records_is_not_built() -> None:
    with pytest.raises(ValueError, match="without records"):
        build_batch([])


@pytest.mark.parametrize("offsets", [[5, 5], [5, 4], [3]])
def test_kept_offsets_must_increase_from_the_base(offsets: list[int]) -> None:
    records = [Record(offset, 0, None, None) for offset in offsets]
    with pytest.raises(ValueError, match="does not follow"):
        build_batch(records, base_offset=4, keep_offsets=True)

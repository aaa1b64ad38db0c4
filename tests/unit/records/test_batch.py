"""The header of a batch, read and patched in place."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.records.strategies import moderate

from moldau.errors import ErrorCode
from moldau.records import batch as b
from moldau.records.batch import (
    HEADER,
    HEADER_SIZE,
    BatchHeader,
    compute_crc,
    crc_is_valid,
    iter_headers,
    patch_log_append_time,
    patch_max_timestamp,
    patch_offset_and_epoch,
    patch_producer,
    read_header,
)
from moldau.records.builder import build_batch
from moldau.records.errors import CorruptRecordError, InvalidRecordError
from moldau.records.reader import read_records
from moldau.records.record import Record

RECORDS = [Record(0, 1000, b"k", b"v"), Record(1, 1005, None, b"w"), Record(2, 990, b"x", None)]


def batch(**fields: Any) -> bytearray:
    return build_batch(RECORDS, **fields)


def test_the_header_struct_has_the_documented_field_offsets() -> None:
    header = BatchHeader(*range(1, 14))
    data = HEADER.pack(*header)
    assert len(data) == HEADER_SIZE == HEADER.size
    for offset, code, value in [
        (b.BASE_OFFSET_OFFSET, ">q", header.base_offset),
        (b.LENGTH_OFFSET, ">i", header.batch_length),
        (b.LEADER_EPOCH_OFFSET, ">i", header.partition_leader_epoch),
        (b.MAGIC_OFFSET, ">b", header.magic),
        (b.CRC_OFFSET, ">I", header.crc),
        (b.ATTRIBUTES_OFFSET, ">h", header.attributes),
        (b.LAST_OFFSET_DELTA_OFFSET, ">i", header.last_offset_delta),
        (b.BASE_TIMESTAMP_OFFSET, ">q", header.base_timestamp),
        (b.MAX_TIMESTAMP_OFFSET, ">q", header.max_timestamp),
        (b.PRODUCER_ID_OFFSET, ">q", header.producer_id),
        (b.PRODUCER_EPOCH_OFFSET, ">h", header.producer_epoch),
        (b.BASE_SEQUENCE_OFFSET, ">i", header.base_sequence),
        (b.RECORDS_COUNT_OFFSET, ">i", header.records_count),
    ]:
        assert struct.unpack_from(code, data, offset) == (value,)


def test_a_header_is_read_from_the_middle_of_a_buffer() -> None:
    data = batch(base_offset=40, leader_epoch=7, producer_id=9, producer_epoch=2, base_sequence=5)
    header = read_header(memoryview(b"ab" + data), 2)
    assert header.size == len(data)
    assert (header.base_offset, header.last_offset, header.next_offset) == (40, 42, 43)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1005)
    assert header.partition_leader_epoch == 7
    assert header.has_producer_id
    assert (header.producer_id, header.producer_epoch) == (9, 2)
    assert (header.base_sequence, header.last_sequence) == (5, 7)
    assert header.records_count == 3
    assert header.magic == 2


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (0b0000000, (0, 0, False, False, None)),
        (0b0000100, (4, 0, False, False, None)),
        (0b0001000, (0, 1, False, False, None)),
        (0b0010000, (0, 0, True, False, None)),
        (0b0100000, (0, 0, False, True, None)),
        (0b1000001, (1, 0, False, False, 55)),
    ],
)
def test_attributes_are_taken_apart(attributes: int, expected: tuple[object, ...]) -> None:
    header = BatchHeader(0, 49, -1, 2, 0, attributes, 0, 55, 60, -1, -1, -1, 1)
    assert expected == (
        header.compression,
        header.timestamp_type,
        header.is_transactional,
        header.is_control,
        header.delete_horizon_ms,
    )
    assert header.has_delete_horizon == (expected[-1] is not None)
    assert not header.has_producer_id
    assert header.last_sequence == -1


def test_sequences_wrap_to_zero_after_the_largest() -> None:
    header = BatchHeader(0, 49, -1, 2, 0, 0, 3, 0, 0, 1, 0, 2**31 - 2, 4)
    assert header.last_sequence == 1


@pytest.mark.parametrize("size", [0, 11, 60])
def test_a_short_header_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptRecordError) as caught:
        read_header(bytes(batch()[:size]))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_batches_are_found_one_after_the_other() -> None:
    batches = [batch(base_offset=n) for n in (0, 3, 6)]
    data = b"".join(batches)
    found = list(iter_headers(data))
    assert [position for position, _ in found] == [0, len(batches[0]), 2 * len(batches[0])]
    assert [header.base_offset for _, header in found] == [0, 3, 6]
    assert [h.base_offset for _, h in iter_headers(data, len(batches[0]))] == [3, 6]
    assert [h.base_offset for _, h in iter_headers(data, 0, len(batches[0]))] == [0]
    assert list(iter_headers(b"")) == []


def test_a_batch_cut_off_at_any_byte_ends_the_iteration() -> None:
    first, second = batch(), batch(base_offset=3)
    for cut in range(len(second)):
        data = bytes(first + second[:cut])
        assert [header.base_offset for _, header in iter_headers(data)] == [0]


def test_a_batch_cut_off_is_an_error_if_the_caller_says_so() -> None:
    data = bytes(batch() + batch())
    assert len(list(iter_headers(data, allow_partial_tail=False))) == 2
    for cut in (1, 12, 60, len(data) // 2 - 1):
        with pytest.raises(CorruptRecordError):
            list(iter_headers(data[:-cut], allow_partial_tail=False))


@pytest.mark.parametrize("length", [-(2**31), -13, -12, -1, 0, 48])
def test_a_length_below_the_header_is_corrupt(length: int) -> None:
    data = batch()
    struct.pack_into(">i", data, b.LENGTH_OFFSET, length)
    with pytest.raises(CorruptRecordError):
        list(iter_headers(data))
    assert not crc_is_valid(data, 0, length + 12)


@pytest.mark.parametrize("length", [-1, 0, 13])
def test_an_impossible_length_is_corrupt_even_where_the_header_is_cut_off(length: int) -> None:
    data = batch()
    struct.pack_into(">i", data, b.LENGTH_OFFSET, length)
    with pytest.raises(CorruptRecordError):
        list(iter_headers(data[:20]))


@pytest.mark.parametrize("magic", [-1, 3, 127])
def test_an_unknown_magic_is_corrupt(magic: int) -> None:
    data = batch()
    struct.pack_into(">b", data, b.MAGIC_OFFSET, magic)
    with pytest.raises(CorruptRecordError):
        list(iter_headers(data))


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_message_format_is_invalid(magic: int) -> None:
    data = batch()
    struct.pack_into(">b", data, b.MAGIC_OFFSET, magic)
    with pytest.raises(InvalidRecordError) as caught:
        list(iter_headers(data))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_the_crc_covers_everything_from_the_attributes_on() -> None:
    data = batch(base_offset=5)
    assert crc_is_valid(data, 0, len(data))
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 0x40
        covered = position >= b.CRC_OFFSET
        assert crc_is_valid(changed, 0, len(changed)) is not covered


def test_the_crc_of_an_incomplete_batch_is_not_valid() -> None:
    data = batch()
    assert not crc_is_valid(data[:-1], 0, len(data))
    assert not crc_is_valid(data, 1, len(data))


def test_the_crc_is_castagnoli() -> None:
    check_value = bytes(21) + b"123456789"
    assert compute_crc(check_value, 0, len(check_value)) == 0xE3069283


@moderate
@given(st.integers(0, 2**63 - 1), st.integers(-1, 2**31 - 1))
def test_offset_and_epoch_are_patched_without_a_new_crc(offset: int, epoch: int) -> None:
    data = bytearray(b"zz") + batch()
    before = read_header(data, 2)
    patch_offset_and_epoch(memoryview(data), 2, offset, epoch)
    assert read_header(data, 2) == before._replace(base_offset=offset, partition_leader_epoch=epoch)
    assert crc_is_valid(data, 2, before.size)
    assert data[:2] == b"zz"


def test_log_append_time_replaces_all_timestamps() -> None:
    data = bytearray(b"zz") + batch(compression=1)
    before = read_header(data, 2)
    patch_log_append_time(memoryview(data), 2, before.size, 123_456)
    header = read_header(data, 2)
    assert header.timestamp_type == b.LOG_APPEND_TIME
    assert header.max_timestamp == 123_456
    assert header.base_timestamp == before.base_timestamp
    assert header.compression == 1
    assert [record.timestamp for record in read_records(data, 2)] == [123_456] * 3


def test_a_corrected_max_timestamp_leaves_the_records_theirs() -> None:
    data = batch(timestamp_type=b.LOG_APPEND_TIME)
    patch_max_timestamp(data, 0, len(data), 1005)
    assert read_header(data).timestamp_type == b.CREATE_TIME
    assert [record.timestamp for record in read_records(data)] == [1000, 1005, 990]


def test_producer_and_sequence_are_patched_with_a_new_crc() -> None:
    data = batch()
    before = read_header(data)
    patch_producer(data, 0, len(data), 77, 3, 1000)
    header = read_header(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 1000)
    assert header._replace(producer_id=-1, producer_epoch=-1, base_sequence=-1) == before._replace(
        crc=header.crc
    )
    assert crc_is_valid(data, 0, len(data))

"""Batches that hold far more than they take: read as wanted, in little memory."""

from __future__ import annotations

import tracemalloc

import pytest

from moldau.client.consumer.fetch.fetched import RECORDS_AT_ONCE, FetchedRecords
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.records.batch import RECORDS_COUNT_OFFSET, write_crc
from moldau.records.builder import BatchBuilder, build_batch
from moldau.records.compression import Compression
from moldau.records.record import Record

PARTITION = TopicPartition("t", 0)
STREAMS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
COUNT = 300_000
MIB = 1024 * 1024


def many(codec: Compression, base_offset: int = 0) -> memoryview:
    builder = BatchBuilder(compression=codec)
    for _ in range(COUNT):
        builder.append(0, None, b"")
    return memoryview(bytes(builder.build(base_offset=base_offset)))


@pytest.mark.parametrize("codec", STREAMS)
def test_a_few_of_very_many_records_cost_little(codec: Compression) -> None:
    data = many(codec)
    fetched = FetchedRecords(PARTITION, 0, data)
    tracemalloc.start()
    try:
        assert [record.offset for record in fetched.take(500)] == list(range(500))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB
    assert fetched.position.offset == 500


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_all_of_very_many_records_come_in_order(codec: Compression) -> None:
    fetched = FetchedRecords(PARTITION, 7, many(codec))
    offset = 7
    while records := fetched.take(RECORDS_AT_ONCE - 1):
        assert records[0].offset == offset
        offset += len(records)
        assert records[-1].offset == offset - 1
        assert fetched.position.offset == offset
    assert offset == COUNT


def test_columns_come_in_parts_and_from_the_offset_that_was_asked_for() -> None:
    first = 3 * RECORDS_AT_ONCE + 7
    fetched = FetchedRecords(PARTITION, 100 + first, many(Compression.ZSTD, 100))
    offsets: list[int] = []
    while (columns := fetched.take_columns()) is not None:
        assert len(columns.offsets) <= RECORDS_AT_ONCE
        assert len(columns.offsets) == len(columns.values) == len(columns.headers)
        offsets += columns.offsets
    assert offsets == list(range(100 + first, 100 + COUNT))
    assert fetched.position.offset == 100 + COUNT


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_large_values_are_read_one_after_the_other(codec: Compression) -> None:
    values = [bytes([number]) * (8 * MIB) for number in range(6)]
    data = bytes(build_batch([Record(0, 0, None, v) for v in values], compression=codec))
    fetched = FetchedRecords(PARTITION, 0, memoryview(data))
    tracemalloc.start()
    try:
        for value in values:
            (record,) = fetched.take(1)
            assert record.value == value
            del record
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * 8 * MIB
    assert fetched.take(1) == []


def test_what_is_wrong_far_into_a_batch_is_told_when_it_is_reached() -> None:
    batch = bytearray(many(Compression.ZSTD))
    batch[RECORDS_COUNT_OFFSET : RECORDS_COUNT_OFFSET + 4] = (COUNT + 1).to_bytes(4, "big")
    write_crc(batch, 0, len(batch))
    fetched = FetchedRecords(PARTITION, 0, memoryview(bytes(batch)))
    for _ in range(COUNT // RECORDS_AT_ONCE - 1):
        assert len(fetched.take(RECORDS_AT_ONCE)) == RECORDS_AT_ONCE
    fetched.take(RECORDS_AT_ONCE)
    for _ in range(2):
        with pytest.raises(KafkaError) as error:
            fetched.take(1)
        assert error.value.code == ErrorCode.CORRUPT_MESSAGE

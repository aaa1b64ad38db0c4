"""Our batches against two other implementations of the format, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from hypothesis import given
from kafka.record import default_records as kafka_python_records
from tests.unit.records.strategies import codecs, moderate, real_timestamps, record_lists

from moldau.records.batch import read_header
from moldau.records.builder import build_batch
from moldau.records.compression import Compression
from moldau.records.reader import read_records
from moldau.records.record import Record

IMPLEMENTATIONS = [
    pytest.param(kafka_python_records, id="kafka-python"),
    pytest.param(aiokafka_records, id="aiokafka"),
]

# aiokafka takes a first timestamp of -1 for "no record yet".
records_for_both = record_lists(timestamps=real_timestamps)


def build_theirs(library: Any, records: list[Record], codec: Compression) -> bytes:
    builder = library.DefaultRecordBatchBuilder(2, int(codec), 1, 4711, 3, 17, 1 << 30)
    for record in records:
        assert builder.append(
            record.offset, record.timestamp, record.key, record.value, list(record.headers)
        )
    return bytes(builder.build())


@pytest.mark.parametrize("library", IMPLEMENTATIONS)
@moderate
@given(records=records_for_both, codec=codecs)
def test_they_read_what_we_build(library: Any, records: list[Record], codec: Compression) -> None:
    batch = library.DefaultRecordBatch(
        bytes(build_batch(records, compression=codec, producer_id=4711, base_sequence=17))
    )
    assert batch.validate_crc()
    assert batch.producer_id == 4711
    assert batch.base_sequence == 17
    assert [
        Record(theirs.offset, theirs.timestamp, theirs.key, theirs.value, tuple(theirs.headers))
        for theirs in batch
    ] == records


@pytest.mark.parametrize("library", IMPLEMENTATIONS)
@moderate
@given(records=records_for_both, codec=codecs)
def test_we_read_what_they_build(library: Any, records: list[Record], codec: Compression) -> None:
    batch = build_theirs(library, records, codec)
    assert read_records(batch) == records
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4711, 3, 17)
    assert header.is_transactional


@pytest.mark.parametrize("library", IMPLEMENTATIONS)
@moderate
@given(records=records_for_both)
def test_uncompressed_batches_are_equal_byte_by_byte(library: Any, records: list[Record]) -> None:
    theirs = build_theirs(library, records, Compression.NONE)
    ours = build_batch(
        records,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=17,
        transactional=True,
        leader_epoch=read_header(theirs).partition_leader_epoch,
    )
    assert ours == theirs

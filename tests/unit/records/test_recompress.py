"""Changing the codec of a batch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from tests.unit.records.strategies import batch_fields, codecs, moderate, record_lists

from moldau.records.batch import HEADER, read_header, write_crc
from moldau.records.builder import build_batch
from moldau.records.compression import Compression
from moldau.records.errors import CorruptRecordError, InvalidRecordError
from moldau.records.reader import read_records
from moldau.records.recompress import recompress
from moldau.records.record import Record


@moderate
@given(record_lists(gaps=True), codecs, codecs, batch_fields)
def test_nothing_but_the_codec_changes(
    records: list[Record], before: Compression, after: Compression, fields: dict[str, Any]
) -> None:
    batch = build_batch(records, compression=before, keep_offsets=True, **fields)
    result = recompress(memoryview(batch), after)
    header = read_header(result)
    assert header.size == len(result)
    assert header.compression == after
    assert header.attributes & ~7 == read_header(batch).attributes & ~7
    assert header._replace(attributes=0, crc=0, batch_length=0) == read_header(batch)._replace(
        attributes=0, crc=0, batch_length=0
    )
    assert read_records(result) == read_records(batch)
    assert result == build_batch(records, compression=after, keep_offsets=True, **fields)


def test_the_level_is_used() -> None:
    value = b"".join(b"%d,%d;" % (n, n * n % 977) for n in range(3000))
    batch = build_batch([Record(0, 0, None, value)])
    assert len(recompress(batch, Compression.GZIP, 9)) < len(recompress(batch, Compression.GZIP, 1))


def test_a_batch_that_compaction_emptied_stays_a_header() -> None:
    batch = bytearray(61)
    HEADER.pack_into(batch, 0, 5, 49, -1, 2, 0, 0, 3, 0, 0, -1, -1, -1, 0)
    write_crc(batch, 0, 61)
    result = recompress(batch, Compression.ZSTD)
    assert result == batch
    assert read_records(result) == []


def test_the_limit_holds() -> None:
    batch = build_batch([Record(0, 0, None, bytes(100_000))], compression=Compression.LZ4)
    assert len(recompress(batch, Compression.NONE, limit=200_000)) > 100_000
    with pytest.raises(InvalidRecordError):
        recompress(batch, 0, limit=50_000)


def test_a_damaged_batch_is_noticed_if_asked_for() -> None:
    batch = build_batch([Record(0, 0, None, b"value")])
    batch[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        recompress(batch, Compression.GZIP, check_crc=True)

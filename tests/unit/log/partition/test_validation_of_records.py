"""What a topic wants of the records inside a batch, and how much they may come to."""

from __future__ import annotations

import gzip
import random
import struct
from typing import Any

import lz4.frame
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support.batches import encode_record, relabelled
from tests.support.partition_log import NOW_MS

from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.log.errors import LongCheckError, RecordValidationError
from moldau.log.partition.budget import (
    AT_ONCE,
    LEAST,
    MIB,
    PART_COST,
    RATIO,
    DecompressionBudget,
)
from moldau.log.partition.validation import BatchRules
from moldau.records.batch import HEADER_SIZE, crc_is_valid, read_header, write_crc
from moldau.records.builder import build_batch
from moldau.records.compression import Compression, compress
from moldau.records.reader import read_records
from moldau.records.record import Record
from moldau.records.streams import XERIAL_HEADER

MAX_LONG = 2**63 - 1
STREAMS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
COMPACT = frozenset({"compact"})

limits = st.sampled_from([0, 1, 1000, 3_600_000, MAX_LONG])
timestamps = st.one_of(
    st.integers(NOW_MS - 2000, NOW_MS + 2000),
    st.sampled_from([-1, 0, 1, -2, NOW_MS + 3_600_001, 2**62, MAX_LONG, -(2**62)]),
)


def batch_of(
    payload: bytes, count: int, codec: int = 0, *, base: int = NOW_MS, largest: int = NOW_MS
) -> memoryview:
    return compressed_batch(compress(codec, payload), count, codec, base=base, largest=largest)


def compressed_batch(
    payload: bytes, count: int, codec: int, *, base: int = NOW_MS, largest: int = NOW_MS
) -> memoryview:
    batch = build_batch([Record(0, 0, None, b"")])
    batch[HEADER_SIZE:] = payload
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, codec)
    struct.pack_into(">qq", batch, 27, base, largest)
    return memoryview(relabelled(batch, count))


def outcome(rules: BatchRules, batch: memoryview) -> tuple[int, list[int], int | None]:
    """Code, numbers of the records that are named, and the largest timestamp."""
    try:
        _, records, largest, _ = rules.check(batch, NOW_MS)
    except RecordValidationError as error:
        return error.code, [index for index, _ in error.record_errors], None
    except KafkaError as error:
        return error.code, [], None
    assert crc_is_valid(records, 0, len(records))
    assert read_header(records).max_timestamp == largest
    return 0, [], largest


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(timestamps, st.booleans()), min_size=1, max_size=8),
    limits,
    limits,
    st.booleans(),
    st.sampled_from(Compression),
    st.integers(-5, 5),
)
def test_keys_and_times_are_those_that_a_topic_wants(
    records: list[tuple[int, bool]],
    before: int,
    after: int,
    compact: bool,
    codec: Compression,
    lie: int,
) -> None:
    base = records[0][0]
    assume(all(-MAX_LONG <= time - base <= MAX_LONG for time, _ in records))
    config = TopicConfig(
        cleanup_policy=COMPACT if compact else frozenset({"delete"}),
        message_timestamp_before_max_ms=before,
        message_timestamp_after_max_ms=after,
    )
    batch = build_batch(
        [Record(0, time, b"k" if has_key else None, b"v") for time, has_key in records],
        compression=codec,
    )
    largest = max(time for time, _ in records)
    struct.pack_into(">q", batch, 35, min(largest + lie, MAX_LONG))
    write_crc(batch, 0, len(batch))
    keyless = [i for i, (_, has_key) in enumerate(records) if compact and not has_key]
    untimely = [
        i
        for i, (time, _) in enumerate(records)
        if i not in keyless
        and time != -1
        and not (NOW_MS - time <= before and time - NOW_MS <= after)
    ]
    expected: tuple[int, list[int], int | None] = (0, [], max(largest, -1))
    if untimely:
        expected = ErrorCode.INVALID_TIMESTAMP, sorted(keyless + untimely), None
    elif keyless:
        expected = ErrorCode.INVALID_RECORD, keyless, None
    assert outcome(BatchRules(config), memoryview(batch)) == expected


@pytest.mark.parametrize("codec", [0, *STREAMS])
def test_times_that_leave_64_bits_are_refused(codec: int) -> None:
    payload = encode_record(0) + encode_record(1, time_delta=10)
    rules = BatchRules(TopicConfig(message_timestamp_after_max_ms=MAX_LONG))
    batch = batch_of(payload, 2, codec, base=MAX_LONG - 10, largest=MAX_LONG)
    assert outcome(rules, batch) == (0, [], MAX_LONG)
    batch = batch_of(payload, 2, codec, base=MAX_LONG - 9, largest=MAX_LONG)
    assert outcome(rules, batch) == (ErrorCode.INVALID_TIMESTAMP, [1], None)


@pytest.mark.parametrize("count", [99, 100, 101, 5000])
def test_at_most_a_hundred_records_are_named(count: int) -> None:
    payload = b"".join(encode_record(delta, None) for delta in range(count))
    config = TopicConfig(cleanup_policy=COMPACT)
    with pytest.raises(RecordValidationError, match=f"{count} records") as error:
        BatchRules(config).check(batch_of(payload, count), NOW_MS)
    assert [index for index, _ in error.value.record_errors] == list(range(min(count, 100)))
    late = batch_of(payload, count, base=NOW_MS + 10**9)
    assert outcome(BatchRules(TopicConfig()), late)[1] == list(range(min(count, 100)))
    struct.pack_into(">h", late, 21, 8)  # LogAppendTime, which no producer may say
    write_crc(late, 0, len(late))
    stamped = BatchRules(TopicConfig(message_timestamp_type="LogAppendTime"))
    assert outcome(stamped, late) == (
        ErrorCode.INVALID_TIMESTAMP,
        list(range(min(count, 100))),
        None,
    )


@pytest.mark.parametrize("topic_codec", ["producer", "zstd", "uncompressed", "lz4"])
def test_frames_that_only_some_consumers_can_read_are_refused(topic_codec: str) -> None:
    rules = BatchRules(TopicConfig(compression_type=topic_codec))
    payload = encode_record(0, b"k", random.Random(1).randbytes(100) * 1400)
    size = lz4.frame.BLOCKSIZE_MAX64KB
    linked = lz4.frame.compress(payload, block_size=size, block_linked=True)
    batch = compressed_batch(linked, 1, Compression.LZ4)
    assert read_records(batch)[0].key == b"k"
    assert outcome(rules, batch) == (ErrorCode.INVALID_RECORD, [], None)
    for extras in (False, True):
        independent = lz4.frame.compress(
            payload,
            block_size=size,
            block_linked=False,
            content_checksum=extras,
            block_checksum=extras,
            store_size=extras,
        )
        assert outcome(rules, compressed_batch(independent, 1, Compression.LZ4))[0] == 0


@pytest.mark.parametrize(
    ("descriptor", "code"),
    [("6040 82", 0), ("6140 00000000 a0", ErrorCode.INVALID_RECORD)],
    ids=["without", "with"],
)
def test_a_frame_that_names_a_dictionary_is_refused(descriptor: str, code: int) -> None:
    record = encode_record(0)
    block = struct.pack("<I", 1 << 31 | len(record)) + record
    frame = b"\x04\x22\x4d\x18" + bytes.fromhex(descriptor) + block + bytes(4)
    batch = compressed_batch(frame, 1, Compression.LZ4)
    assert len(read_records(batch)) == 1
    assert outcome(BatchRules(TopicConfig()), batch)[0] == code


# What they come to -------------------------------------------------------------------------------


def large(size: int, codec: Compression, key: bytes | None = b"k") -> memoryview:
    return batch_of(encode_record(0, key, bytes(size)), 1, codec)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD, Compression.LZ4])
@pytest.mark.parametrize(
    "settings_of_topic",
    [{}, {"cleanup_policy": COMPACT}, {"compression_type": "snappy"}],
    ids=["plain", "compacted", "recompressed"],
)
def test_a_batch_comes_to_no_more_than_its_limit(
    codec: Compression, settings_of_topic: dict[str, Any]
) -> None:
    rules = BatchRules(TopicConfig(max_message_bytes=2 * MIB, **settings_of_topic))
    limit = 2 * MIB * RATIO
    too_large = large(limit, codec)
    with pytest.raises(KafkaError, match="decompress") as error:
        rules.check(too_large, NOW_MS)
    assert error.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_small_limit_of_batches_is_no_small_limit_of_records() -> None:
    rules = BatchRules(TopicConfig(max_message_bytes=10_000))
    rules.check(large(LEAST - 100, Compression.ZSTD), NOW_MS)
    with pytest.raises(KafkaError, match=str(LEAST)):
        rules.check(large(LEAST, Compression.ZSTD), NOW_MS)


def test_what_is_stored_uncompressed_must_fit_uncompressed() -> None:
    rules = BatchRules(TopicConfig(compression_type="uncompressed"))
    _, records, _, _ = rules.check(large(MIB - 1000, Compression.ZSTD), NOW_MS)
    assert len(read_records(records)[0].value or b"") == MIB - 1000
    assert outcome(rules, large(MIB, Compression.ZSTD))[0] == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", STREAMS)
def test_what_takes_long_is_left_to_a_thread_and_nothing_happened(codec: Compression) -> None:
    rules = BatchRules(TopicConfig(max_message_bytes=10 * MIB))
    batch = large(AT_ONCE, codec)
    before = bytes(batch)
    budget = DecompressionBudget()
    with pytest.raises(LongCheckError):
        rules.check(batch, NOW_MS, budget)
    assert bytes(batch) == before
    with pytest.raises(LongCheckError):  # and nothing more in this turn
        rules.check(large(10, codec), NOW_MS, budget)
    rules.check(large(10, Compression.NONE), NOW_MS, budget)
    budget.next_turn()
    rules.check(large(10, codec), NOW_MS, budget)
    rules.check(batch, NOW_MS)


EMPTY_BLOCK = struct.pack(">i", 1) + b"\0"
EMPTY_FRAME = bytes.fromhex("28b52ffd 20 00 010000")
SKIPPED_FRAME = bytes.fromhex("502a4d18 00000000")


@pytest.mark.parametrize(
    ("codec", "empty"),
    [
        (Compression.GZIP, gzip.compress(b"")),
        (Compression.SNAPPY, EMPTY_BLOCK),
        (Compression.SNAPPY, XERIAL_HEADER),
        (Compression.ZSTD, EMPTY_FRAME),
        (Compression.ZSTD, SKIPPED_FRAME),
    ],
    ids=["gzip", "snappy", "snappy-streams", "zstd", "zstd-skipped"],
)
def test_parts_that_hold_nothing_take_time(codec: Compression, empty: bytes) -> None:
    rules = BatchRules(TopicConfig(max_message_bytes=10 * MIB))
    payload = compress(codec, encode_record(0))
    few = compressed_batch(payload + 100 * empty, 1, codec)
    many = compressed_batch(payload + 40_000 * empty, 1, codec)
    budget = DecompressionBudget()
    rules.check(few, NOW_MS, budget)
    assert budget.at_once < AT_ONCE - 99 * PART_COST
    with pytest.raises(LongCheckError):
        rules.check(many, NOW_MS, DecompressionBudget())
    rules.check(many, NOW_MS)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_to_compress_takes_longer(codec: Compression) -> None:
    rules = BatchRules(TopicConfig(compression_type="gzip"))
    rules.check(large(60_000, codec), NOW_MS, DecompressionBudget())
    with pytest.raises(LongCheckError):
        rules.check(large(70_000, codec), NOW_MS, DecompressionBudget())


def test_a_batch_is_never_refused_for_what_else_is_in_the_request() -> None:
    rules = BatchRules(TopicConfig())
    batch = large(1_000_000, Compression.ZSTD)
    budget = DecompressionBudget()
    rules.check(batch, NOW_MS, budget)
    for _ in range(40):
        with pytest.raises(LongCheckError):
            rules.check(batch, NOW_MS, budget)
        rules.check(batch, NOW_MS)

"""What a produce request may put into a log. Codes as Apache Kafka 4.3 answers them."""

from __future__ import annotations

import struct

import pytest
from tests.support.partition_log import NOW_MS, make_batch

from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.log.errors import RecordValidationError
from moldau.log.partition.validation import BatchRules, check_batches
from moldau.records.batch import crc_is_valid, read_header, write_crc
from moldau.records.builder import build_batch
from moldau.records.compression import Compression
from moldau.records.control import ControlType, build_end_txn_marker
from moldau.records.reader import read_records
from moldau.records.record import Record

PLAIN = TopicConfig()
APPEND_TIME = TopicConfig(message_timestamp_type="LogAppendTime")
COMPACTED = TopicConfig(cleanup_policy=frozenset({"compact"}))


def patched(
    batch: memoryview, position: int, form: str, value: int, *, crc: bool = True
) -> memoryview:
    struct.pack_into(form, batch, position, value)
    if crc:
        write_crc(batch, 0, len(batch))
    return batch


def joined(*parts: bytes | bytearray | memoryview) -> memoryview:
    return memoryview(bytearray(b"".join(parts)))


def refusal(records: memoryview, config: TopicConfig = PLAIN) -> KafkaError:
    with pytest.raises(KafkaError) as error:
        BatchRules(config).check(records, NOW_MS)
    return error.value


def old_message(magic: int) -> bytes:
    body = struct.pack(">Ibbqii", 0, magic, 0, NOW_MS, -1, 8) + b"12345678"
    return struct.pack(">qi", 0, len(body)) + body + bytes(40)


@pytest.mark.parametrize("codec", list(Compression))
def test_a_proper_batch_passes_as_it_is(codec: Compression) -> None:
    batch = make_batch(3, compression=codec)
    before = bytes(batch)
    fields, records, largest, append_time = BatchRules(PLAIN).check(batch, NOW_MS)
    assert records is batch
    assert bytes(records) == before
    assert (fields[6], largest, append_time) == (2, NOW_MS, -1)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (joined(), ErrorCode.INVALID_RECORD),
        (make_batch()[:40], ErrorCode.INVALID_RECORD),
        (make_batch()[:-1], ErrorCode.INVALID_RECORD),
        (joined(make_batch(), make_batch()), ErrorCode.INVALID_RECORD),
        (joined(make_batch(), bytes(40)), ErrorCode.CORRUPT_MESSAGE),
        (patched(make_batch(), 17, ">I", 5, crc=False), ErrorCode.CORRUPT_MESSAGE),
        (patched(make_batch(), 21, ">h", 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (patched(make_batch(2), 57, ">i", 3), ErrorCode.INVALID_RECORD),
        (patched(make_batch(2), 57, ">i", 0), ErrorCode.INVALID_RECORD),
        (patched(make_batch(2), 23, ">i", -5), ErrorCode.INVALID_RECORD),
        (patched(make_batch(2), 23, ">i", 7), ErrorCode.INVALID_RECORD),
        (patched(make_batch(), 0, ">q", 5, crc=False), ErrorCode.INVALID_RECORD),
        (patched(make_batch(), 16, ">b", 3, crc=False), ErrorCode.CORRUPT_MESSAGE),
        (patched(make_batch(), 16, ">b", -1, crc=False), ErrorCode.CORRUPT_MESSAGE),
        (patched(make_batch(), 8, ">i", 10, crc=False), ErrorCode.CORRUPT_MESSAGE),
        (patched(make_batch(), 8, ">i", -10, crc=False), ErrorCode.CORRUPT_MESSAGE),
        (joined(old_message(0)), ErrorCode.INVALID_RECORD),
        (joined(old_message(1)), ErrorCode.INVALID_RECORD),
        (joined(old_message(1)[:50]), ErrorCode.INVALID_RECORD),
        (joined(make_batch()[:8], b"\0\0\0\1", bytes(10)), ErrorCode.CORRUPT_MESSAGE),
        (patched(make_batch(producer_id=5), 53, ">i", -1), ErrorCode.INVALID_RECORD),
    ],
    ids=[
        "nothing",
        "half a header",
        "last byte missing",
        "two batches",
        "garbage behind",
        "wrong crc",
        "unknown codec",
        "count too large",
        "count zero",
        "negative delta",
        "delta too large",
        "base offset",
        "magic 3",
        "magic -1",
        "length too small",
        "negative length",
        "message format 0",
        "message format 1",
        "message format 1, short",
        "short and impossible",
        "producer without sequence",
    ],
)
def test_what_is_refused(records: memoryview, code: ErrorCode) -> None:
    assert refusal(records).code is code


def test_control_batches_are_refused_from_clients() -> None:
    marker = build_end_txn_marker(
        ControlType.COMMIT,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=NOW_MS,
    )
    assert refusal(memoryview(marker)).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("rest", [b"\0\1\2", bytes(make_batch()[:60])])
def test_an_incomplete_batch_behind_the_first_is_dropped(rest: bytes) -> None:
    batch = make_batch()
    _, records, _, _ = BatchRules(PLAIN).check(joined(batch, rest), NOW_MS)
    assert bytes(records) == bytes(batch)


def test_a_batch_may_be_as_large_as_the_limit_and_no_larger() -> None:
    batch = make_batch(size=100)
    BatchRules(TopicConfig(max_message_bytes=len(batch))).check(batch, NOW_MS)
    error = refusal(make_batch(size=101), TopicConfig(max_message_bytes=len(batch)))
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE


# Timestamps --------------------------------------------------------------------------------------


def test_the_time_of_the_append_replaces_the_records_times() -> None:
    batch = make_batch(2, timestamps=(5, 6))
    _, records, largest, append_time = BatchRules(APPEND_TIME).check(batch, NOW_MS)
    assert (largest, append_time) == (NOW_MS, NOW_MS)
    assert crc_is_valid(records, 0, len(records))
    assert [record.timestamp for record in read_records(records)] == [NOW_MS, NOW_MS]


def test_a_producer_may_not_claim_the_append_time() -> None:
    error = refusal(patched(make_batch(2), 21, ">h", 8), APPEND_TIME)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, RecordValidationError)
    assert [index for index, _ in error.record_errors] == [0, 1]


def test_on_a_create_time_topic_that_claim_is_taken_back() -> None:
    batch = patched(make_batch(2, timestamps=(NOW_MS - 5, NOW_MS)), 21, ">h", 8)
    _, records, _, _ = BatchRules(PLAIN).check(batch, NOW_MS)
    assert read_header(records).attributes == 0
    assert crc_is_valid(records, 0, len(records))


def test_whoever_claims_the_append_time_hides_no_time_behind_it() -> None:
    """The claim is taken back, so that the times of the records count; its own is none of them."""
    times = (NOW_MS - 5, NOW_MS + 100, NOW_MS)
    batch = patched(patched(make_batch(3, timestamps=times), 35, ">q", NOW_MS + 7), 21, ">h", 8)
    _, records, largest, _ = BatchRules(PLAIN).check(batch, NOW_MS)
    assert [record.timestamp for record in read_records(records)] == [*times]
    assert largest == read_header(records).max_timestamp == NOW_MS + 100
    far = make_batch(2, timestamps=(NOW_MS, NOW_MS + 10 * 3_600_000))
    error = refusal(patched(patched(far, 35, ">q", NOW_MS), 21, ">h", 8))
    assert isinstance(error, RecordValidationError)
    assert [index for index, _ in error.record_errors] == [1]


def test_timestamps_too_far_in_the_future_are_refused_one_by_one() -> None:
    hour = 3_600_000
    BatchRules(PLAIN).check(make_batch(timestamps=(NOW_MS + hour,)), NOW_MS)
    error = refusal(make_batch(3, timestamps=(NOW_MS, NOW_MS + hour + 1, NOW_MS)))
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, RecordValidationError)
    assert [index for index, _ in error.record_errors] == [1]
    assert str(NOW_MS + hour + 1) in error.record_errors[0][1]


def test_timestamps_too_far_in_the_past_are_refused_if_the_topic_says_so() -> None:
    config = TopicConfig(message_timestamp_before_max_ms=1000)
    BatchRules(config).check(make_batch(2, timestamps=(NOW_MS - 1000, -1)), NOW_MS)
    error = refusal(make_batch(2, timestamps=(NOW_MS, NOW_MS - 1001)), config)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, RecordValidationError)
    assert [index for index, _ in error.record_errors] == [1]


def test_records_without_a_timestamp_are_taken() -> None:
    _, _, largest, _ = BatchRules(PLAIN).check(make_batch(timestamps=(-1,)), NOW_MS)
    assert largest == -1


def test_a_wrong_largest_timestamp_is_corrected() -> None:
    batch = patched(make_batch(2, timestamps=(NOW_MS - 9, NOW_MS - 4)), 35, ">q", -1)
    _, records, largest, _ = BatchRules(PLAIN).check(batch, NOW_MS)
    assert largest == NOW_MS - 4
    assert read_header(records).max_timestamp == NOW_MS - 4
    assert crc_is_valid(records, 0, len(records))


# Codecs and keys ---------------------------------------------------------------------------------


@pytest.mark.parametrize("source", list(Compression))
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_may_choose_the_codec(source: Compression, target: str) -> None:
    batch = make_batch(3, size=200, compression=source)
    wanted = read_records(batch)
    rules = BatchRules(TopicConfig(compression_type=target))
    _, records, _, _ = rules.check(batch, NOW_MS)
    codec = Compression.NONE if target == "uncompressed" else Compression.from_label(target)
    assert read_header(records).compression == codec
    assert read_records(records) == wanted
    if codec == source:
        assert records is batch


def test_the_limit_holds_after_recompression_too() -> None:
    batch = make_batch(size=5000, compression=Compression.ZSTD)
    config = TopicConfig(compression_type="uncompressed", max_message_bytes=len(batch))
    assert refusal(batch, config).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", list(Compression))
def test_on_a_compacted_topic_every_record_needs_a_key(codec: Compression) -> None:
    BatchRules(COMPACTED).check(make_batch(2, compression=codec), NOW_MS)
    records = [Record(0, NOW_MS, key, b"v") for key in (b"a", None, b"", None)]
    error = refusal(memoryview(build_batch(records, compression=codec)), COMPACTED)
    assert error.code is ErrorCode.INVALID_RECORD
    assert isinstance(error, RecordValidationError)
    assert [index for index, _ in error.record_errors] == [1, 3]


def test_several_batches_are_checked_each() -> None:
    batch = make_batch()
    assert check_batches(joined(batch, batch, batch[:10])) == [len(batch)] * 2
    broken = joined(batch, patched(make_batch(), 17, ">I", 1, crc=False))
    with pytest.raises(KafkaError, match="CRC"):
        check_batches(broken)


def test_a_time_out_of_range_outweighs_a_missing_key() -> None:
    """All refused records are named; one without a key is not looked at further."""
    day = 86_400_000
    config = TopicConfig(
        cleanup_policy=frozenset({"compact"}), message_timestamp_before_max_ms=3_600_000
    )
    times = (NOW_MS - day, NOW_MS, NOW_MS - day, NOW_MS)
    keys = (None, b"k", b"k", None)
    records = [Record(0, time, key, b"v") for time, key in zip(times, keys, strict=True)]
    error = refusal(memoryview(build_batch(records)), config)
    assert isinstance(error, RecordValidationError)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [0, 2, 3]
    records = [Record(0, NOW_MS - day, None, b"v"), Record(0, NOW_MS, b"k", b"v")]
    error = refusal(memoryview(build_batch(records)), config)
    assert isinstance(error, RecordValidationError)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [0]

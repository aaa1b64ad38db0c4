"""Record batches and what is in them: whoever looks at one comes to the same verdict.

An input is a batch as it is, one whose length and CRC are made right, encoded records that are
compressed and put into a batch, or a compressed stream.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import cramjam
from tests.fuzz.target import Choices, Target

from moldau.config.values.topic import TopicConfig
from moldau.errors import KafkaError
from moldau.log.errors import LongCheckError
from moldau.log.partition.budget import DecompressionBudget
from moldau.log.partition.validation import BatchRules, CheckedBatch
from moldau.records.batch import (
    HEADER,
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    crc_is_valid,
    read_header,
    write_crc,
)
from moldau.records.builder import build_batch
from moldau.records.compression import Compression, compress, open_stream
from moldau.records.errors import CorruptRecordError, DecompressionLimitError, InvalidRecordError
from moldau.records.reader import BatchDecoder, read_columns, read_payload, read_records
from moldau.records.record import Record
from moldau.records.scan import record_spans
from moldau.records.streams import PayloadStream
from moldau.records.walk import RecordWalk
from moldau.records.zstd_frames import count_frames

NOW_MS = 1_700_000_000_000
LIMIT = 1 << 20
GOLDEN = Path(__file__).parents[1] / "unit" / "records" / "golden"

AS_IT_IS, SEALED, PACKED, STREAM = range(4)

REFUSED = (InvalidRecordError, CorruptRecordError)

TOPICS = (
    TopicConfig(),
    TopicConfig(cleanup_policy=frozenset({"compact"})),
    TopicConfig(message_timestamp_type="LogAppendTime"),
    TopicConfig(compression_type="uncompressed"),
    TopicConfig(compression_type="gzip"),
    TopicConfig(compression_type="snappy"),
    TopicConfig(compression_type="lz4"),
    TopicConfig(compression_type="zstd"),
    TopicConfig(max_message_bytes=200, message_timestamp_before_max_ms=3_600_000),
)


@cache
def rules_of(number: int) -> BatchRules:
    return BatchRules(TOPICS[number])


class Batches(Target):
    def run(self, data: bytes) -> None:
        choices = Choices(data)
        kind, topic = choices.byte() % 4, choices.byte() % len(TOPICS)
        if kind == STREAM:
            check_stream(topic % 5, 1 + choices.byte(), choices.rest())
            return
        if kind == PACKED:
            batch = packed(choices.byte() % 5, choices.byte(), choices.rest())
        else:
            batch = bytearray(choices.rest())
            if kind == SEALED and len(batch) >= HEADER_SIZE:
                struct.pack_into(">i", batch, LENGTH_OFFSET, len(batch) - LOG_OVERHEAD)
                write_crc(batch, 0, len(batch))
        check_rules(rules_of(topic), bytes(batch))
        check_readers(bytes(batch))

    def seeds(self) -> Iterable[bytes]:
        for path in sorted(GOLDEN.glob("*.bin")):
            if path.stat().st_size < 1000:
                yield bytes([SEALED, 0]) + path.read_bytes()
        for topic in range(len(TOPICS)):
            for codec in range(5):
                yield bytes([SEALED, topic]) + build_batch(sample(3), compression=codec)
                yield bytes([PACKED, topic, codec, 3]) + payload_of(sample(3))
        yield bytes([AS_IT_IS, 0]) + build_batch(sample(1))
        yield bytes([AS_IT_IS, 0]) + build_batch(sample(1), producer_id=7, producer_epoch=0)
        yield bytes([AS_IT_IS, 0]) + 2 * build_batch(sample(1))
        for codec in range(1, 5):
            for content in (b"", b"v", bytes(1000), bytes(range(256)) * 300):
                one = compress(codec, content)
                yield bytes([STREAM, codec, 0]) + one
                yield bytes([STREAM, codec, 9]) + one + one
        yield from damaged_seeds()


def damaged_seeds() -> Iterator[bytes]:
    """One thing is wrong in each."""
    payload = payload_of(sample(3))
    for count in (0, 1, 2, 4):
        yield bytes([PACKED, 0, 0, count]) + payload
    yield bytes([PACKED, 0, 0, 2]) + 2 * payload_of(sample(1))
    for at in range(len(payload)):
        for bit in (0x01, 0x02, 0x80):
            changed = bytearray(payload)
            changed[at] ^= bit
            yield bytes([PACKED, 0, 0, 3]) + changed
    for codec in range(1, 5):
        stream = compress(codec, b"value" * 20)
        for end in range(len(stream)):
            yield bytes([STREAM, codec, 9]) + stream[:end]
        yield bytes([STREAM, codec, 9]) + stream + b"\0"


def sample(count: int) -> list[Record]:
    shapes = [
        Record(0, NOW_MS, b"k", b"v"),
        Record(1, NOW_MS + 1, b"", b"value" * 20, (("name", b"x"), ("none", None))),
        Record(2, NOW_MS - 300, b"key" * 30, None),
    ]
    return shapes[:count]


def payload_of(records: list[Record]) -> bytes:
    batch = build_batch(records)
    return read_payload(batch, 0, read_header(batch))


def packed(codec: int, count: int, payload: bytes) -> bytearray:
    """A batch of these records, whatever they are."""
    content = compress(codec, payload)
    fields = (codec, count - 1, NOW_MS, NOW_MS, -1, -1, -1, count)
    size = HEADER_SIZE + len(content)
    batch = bytearray(HEADER.pack(0, size - LOG_OVERHEAD, -1, 2, 0, *fields) + content)
    write_crc(batch, 0, size)
    return batch


# What the broker says


def check_rules(rules: BatchRules, batch: bytes) -> None:
    verdict = checked(rules, batch, None)
    budgeted = checked(rules, batch, DecompressionBudget())
    if isinstance(budgeted, LongCheckError):
        assert not isinstance(verdict, LongCheckError)
    elif isinstance(verdict, tuple):
        assert isinstance(budgeted, tuple)
        assert (*budgeted[0], bytes(budgeted[1])) == (*verdict[0], bytes(verdict[1]))
    else:
        assert isinstance(budgeted, KafkaError)
        assert (budgeted.code, str(budgeted)) == (verdict.code, str(verdict))  # type: ignore[union-attr]
    if isinstance(verdict, tuple):
        check_accepted(rules, batch, verdict)


def checked(
    rules: BatchRules, batch: bytes, budget: DecompressionBudget | None
) -> CheckedBatch | KafkaError | LongCheckError:
    try:
        return rules.check(memoryview(bytearray(batch)), NOW_MS, budget)
    except (KafkaError, LongCheckError) as error:
        return error


def check_accepted(rules: BatchRules, sent: bytes, checked: CheckedBatch) -> None:
    """What is stored can be read, by everyone."""
    fields, view, largest, append_time = checked
    stored = bytes(view)
    count = fields[-1]
    records = read_records(stored)
    assert [record.offset for record in records] == list(range(count))
    header = read_header(stored)
    assert header.max_timestamp == largest
    if append_time == NO_TIMESTAMP:
        times = [record.timestamp for record in records]
        assert max(*times, NO_TIMESTAMP) == largest
        again = rules.check(memoryview(bytearray(stored)), NOW_MS)
        assert bytes(again[1]) == stored, "what is stored would be stored again as it is"
    else:
        assert all(record.timestamp == append_time == NOW_MS for record in records)
    assert records_as_sent(sent) == [(one.key, one.value, one.headers) for one in records]


def records_as_sent(sent: bytes) -> list[tuple[object, object, object]]:
    return [(one.key, one.value, one.headers) for one in read_records(sent)]


# What others say


def check_readers(batch: bytes) -> None:
    try:
        header = read_header(batch)
    except CorruptRecordError:
        return
    records = read(batch)
    if records is not None:
        columns = read_columns(batch, limit=LIMIT)
        assert columns.offsets == [record.offset for record in records]
        assert columns.timestamps == [record.timestamp for record in records]
        assert columns.keys == [record.key for record in records]
        assert columns.values == [record.value for record in records]
        assert columns.headers == [record.headers for record in records]
        spans = record_spans(read_payload(batch, 0, header, limit=LIMIT), header.records_count)
        assert [(span.key, span.has_value) for span in spans] == [
            (record.key, record.value is not None) for record in records
        ]
    if not HEADER_SIZE <= header.size <= len(batch) or header.records_count < 0:
        return
    if header.magic != 2 or not crc_is_valid(batch, 0, header.size):
        return
    check_in_pieces(batch, header, records)
    if header.records_count > 0 and header.compression <= Compression.ZSTD:
        check_walk(batch, header, records)


def read(batch: bytes) -> list[Record] | None:
    try:
        return read_records(batch, limit=LIMIT)
    except REFUSED:
        return None


def check_in_pieces(batch: bytes, header: BatchHeader, records: list[Record] | None) -> None:
    """A consumer that takes a few at a time gets the same."""
    found: list[tuple[object, ...]] = []
    try:
        decoder = BatchDecoder(batch, 0, header)
        while not decoder.is_done:
            assert len(found) <= LIMIT
            found += [
                (one.offset, one.timestamp, one.key, one.value, one.headers)
                for one in decoder.read_consumer_records("t", 0, header.base_offset, 2)
            ]
        assert decoder.next_offset == header.next_offset
    except REFUSED:
        assert records is None
        return
    if records is None:
        # It has no limit of its own; and what is behind the records of none is not looked at.
        assert is_too_large(batch, header) or not header.records_count
        return
    assert found == [
        (one.offset, one.timestamp, one.key, one.value, one.headers) for one in records
    ]


def is_too_large(batch: bytes, header: BatchHeader) -> bool:
    try:
        read_payload(batch, 0, header, limit=LIMIT)
    except DecompressionLimitError:
        return True
    except REFUSED:
        return False
    return False


def check_walk(batch: bytes, header: BatchHeader, records: list[Record] | None) -> None:
    """The broker's pass takes what the reader can read and counts from 0 on, nothing else."""
    payload = batch[HEADER_SIZE : header.size]
    count, codec = header.records_count, header.compression
    is_whole = records is not None and [
        record.offset - header.base_offset for record in records
    ] == list(range(count))
    walk = RecordWalk(count)
    try:
        if codec:
            walk.over_stream(open_stream(codec, payload, LIMIT))
        else:
            walk.over(memoryview(payload))
    except InvalidRecordError:
        assert not is_whole or not payload
        return
    # What is last may be said to be earlier by the header: the reader minds, the broker did before.
    assert is_whole or header.last_offset_delta < count - 1
    if is_whole and records and not header.timestamp_type:
        assert header.base_timestamp + walk.max_time == max(one.timestamp for one in records)
    plain = read_payload(batch, 0, header, limit=LIMIT)
    for size in (1, 7, 30):
        pieces = RecordWalk(count)
        pieces.over_stream(Cut(plain, size))
        assert pieces.max_time == walk.max_time


class Cut(PayloadStream):
    """Gives bytes in small pieces, as a codec might."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(LIMIT + 1)
        self._pieces: Iterator[bytes] = (data[at : at + size] for at in range(0, len(data), size))

    def _next(self, size: int) -> bytes:
        return next(self._pieces, b"")


# Streams


def check_stream(codec: int, size: int, data: bytes) -> None:
    if codec == Compression.NONE:
        return
    content = drain(codec, data, 65536)
    if codec == Compression.ZSTD and count_frames(data, 2) != 1:
        # Of several frames only the library compares what they claim with what they hold, and not
        # if it has less room than they claim. Everybody here reads in pieces of the same size.
        return
    assert drain(codec, data, size * size) == content, "the size of pieces makes no difference"
    if content is None or codec == Compression.SNAPPY:
        return
    assert len(content) <= LIMIT
    if codec == Compression.GZIP:
        assert gzip.decompress(data) == content
    elif codec == Compression.ZSTD:
        assert bytes(cramjam.zstd.decompress(data)) == content
    else:
        assert bytes(cramjam.lz4.decompress(data)) == content


def drain(codec: int, data: bytes, size: int) -> bytes | None:
    """What a stream gives; None if it is refused."""
    stream = open_stream(codec, data, LIMIT, 1)
    content = bytearray()
    try:
        while piece := stream.read(size):
            assert len(piece) <= size or codec == Compression.SNAPPY
            content += piece
            assert len(content) <= LIMIT
        assert stream.read(size) == b"", "the end is the end"
    except InvalidRecordError:
        return None
    assert len(content) <= stream.cost
    return bytes(content)

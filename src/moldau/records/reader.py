"""From the bytes of a record batch to its records.

Compiled by mypyc where a compiler was at hand, plain Python otherwise: the inlined one-byte
integers below cost some lines, but they are what most of a batch consists of, and a call for each
would halve the speed of the plain version.

Nothing in the bytes is trusted. Every length is checked against what is there before it is used;
a batch that contradicts itself raises CorruptRecordError or InvalidRecordError, nothing else.
"""

from __future__ import annotations

from io import BytesIO
from typing import Final

from moldau.records.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    BatchHeader,
    Buffer,
    crc_is_valid,
    read_header,
)
from moldau.records.compression import DEFAULT_LIMIT, Compression, decompress, open_stream
from moldau.records.consumer_record import ConsumerRecord
from moldau.records.errors import CorruptRecordError, InvalidRecordError
from moldau.records.malformed import bad_size, ends_early, trailing_bytes
from moldau.records.native import i64
from moldau.records.record import Headers, Record
from moldau.records.streams import PayloadStream
from moldau.records.varint import INT32_BYTES, INT64_BYTES, finish_varint, read_varint

__all__ = [
    "BatchDecoder",
    "RecordColumns",
    "read_batch_header",
    "read_columns",
    "read_payload",
    "read_records",
]


_WINDOW: Final = 64 * 1024
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
_ANY_NUMBER: Final = 2**62


class RecordColumns:
    """The records of a batch as one list per field."""

    __slots__ = ("headers", "keys", "offsets", "timestamps", "values")

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.timestamps: list[int] = []
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: list[Headers] = []

    def extend(self, other: RecordColumns) -> None:
        """Put the records of another batch behind these."""
        self.offsets += other.offsets
        self.timestamps += other.timestamps
        self.keys += other.keys
        self.values += other.values
        self.headers += other.headers


class _ConsumerTarget:
    """Takes the records of a batch as those of one consumer's partition."""

    __slots__ = ("epoch", "first_offset", "partition", "records", "timestamp_type", "topic")

    def __init__(self, topic: str, partition: int, first_offset: int, header: BatchHeader) -> None:
        self.topic = topic
        self.partition = partition
        self.first_offset = first_offset
        self.timestamp_type: int = header.timestamp_type
        self.epoch: int = header.partition_leader_epoch
        self.records: list[ConsumerRecord] = []

    def add(
        self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        if offset >= self.first_offset:
            self.records.append(
                ConsumerRecord(
                    self.topic,
                    self.partition,
                    offset,
                    timestamp,
                    self.timestamp_type,
                    key,
                    value,
                    headers,
                    self.epoch,
                )
            )


def read_batch_header(buf: Buffer, pos: int = 0, *, check_crc: bool = True) -> BatchHeader:
    """The header at ``pos``, if a complete batch with the right CRC follows it."""
    header = read_header(buf, pos)
    if header.magic != MAGIC:
        if header.magic in (0, 1):
            raise InvalidRecordError(f"message format v{header.magic} is not accepted, only v2")
        raise CorruptRecordError(f"magic {header.magic} is no message format")
    if not HEADER_SIZE <= header.size <= len(buf) - pos:
        raise CorruptRecordError(
            f"a batch of {header.size} bytes cannot be in the {len(buf) - pos} bytes there are"
        )
    if check_crc and not crc_is_valid(buf, pos, header.size):
        raise CorruptRecordError(f"the CRC of the batch at offset {header.base_offset} is wrong")
    if header.records_count < 0:
        raise InvalidRecordError(f"a batch cannot have {header.records_count} records")
    return header


def read_payload(buf: Buffer, pos: int, header: BatchHeader, *, limit: int | None = None) -> bytes:
    """The encoded records of the batch at ``pos``, decompressed to at most ``limit`` bytes."""
    size = header.size
    if size == HEADER_SIZE:  # what compaction may leave of a batch: a header, no stream to open
        return b""
    codec = header.compression
    payload = memoryview(buf)[pos + HEADER_SIZE : pos + size]
    if codec == Compression.NONE:
        return bytes(payload)
    return decompress(codec, payload, limit)


def read_records(
    buf: Buffer, pos: int = 0, *, check_crc: bool = True, limit: int | None = None
) -> list[Record]:
    """The records of the batch at ``pos``."""
    header = read_batch_header(buf, pos, check_crc=check_crc)
    records: list[Record] = []
    _decode_checked(read_payload(buf, pos, header, limit=limit), header, records, None, None)
    return records


def read_columns(
    buf: Buffer, pos: int = 0, *, check_crc: bool = True, limit: int | None = None
) -> RecordColumns:
    """The records of the batch at ``pos``, field by field."""
    header = read_batch_header(buf, pos, check_crc=check_crc)
    columns = RecordColumns()
    _decode_checked(read_payload(buf, pos, header, limit=limit), header, None, columns, None)
    return columns


class BatchDecoder:
    """The records of one batch, whose header was checked, some at a time.

    What the batch decompresses to is never in memory as a whole: a window of it, and one record
    at least. A record of more than 256 MiB is refused.
    """

    __slots__ = ("_at", "_data", "_header", "_index", "_is_last", "_stream", "next_offset")

    def __init__(self, buf: Buffer, pos: int, header: BatchHeader) -> None:
        self._header = header
        self._index = 0
        self._at = 0
        self._data = b""
        self._stream: PayloadStream | None = None
        self.next_offset = header.base_offset
        """Behind what was read so far; where the batch ends, once all was."""
        payload = memoryview(buf)[pos + HEADER_SIZE : pos + header.size]
        self._is_last = header.compression == Compression.NONE or len(payload) == 0
        if self._is_last:
            self._data = bytes(payload)
        else:
            self._stream = open_stream(header.compression, payload, _ANY_NUMBER)
        if header.records_count == 0:
            self.next_offset = header.next_offset

    @property
    def is_done(self) -> bool:
        return self._index == self._header.records_count

    def read_consumer_records(
        self, topic: str, partition: int, first_offset: int, most: int
    ) -> list[ConsumerRecord]:
        """Up to ``most`` more records, without those before ``first_offset``."""
        target = _ConsumerTarget(topic, partition, first_offset, self._header)
        self._read(most, None, target)
        return target.records

    def read_columns(self, most: int) -> RecordColumns:
        """Up to ``most`` more records, field by field."""
        columns = RecordColumns()
        self._read(most, columns, None)
        return columns

    def _read(
        self, most: int, columns: RecordColumns | None, consumer: _ConsumerTarget | None
    ) -> None:
        header = self._header
        stop = min(self._index + most, header.records_count)
        room = _BYTES_AT_ONCE
        while self._index < stop and room > 0:
            before = self._index
            self._index, self._at, last_delta = _decode_checked(
                self._data, header, None, columns, consumer, self._at, before, stop, self._is_last
            )
            room -= len(self._data)
            if self._index > before:
                self.next_offset = header.base_offset + last_delta + 1
            if self._index < stop:
                self._refill()
        if self.is_done:
            self._finish()

    def _refill(self) -> None:
        """Bring in the rest of the next record, or a window."""
        stream = self._stream
        if stream is None:
            return
        rest = self._data[self._at :]
        wanted = _WINDOW
        if len(rest) >= INT32_BYTES:
            size, start = read_varint(rest, 0, INT32_BYTES)
            wanted = max(start + size - len(rest), _WINDOW)
            if wanted > DEFAULT_LIMIT:
                raise InvalidRecordError(f"a record of {size} bytes is more than can be read")
        window = BytesIO()
        window.write(rest)
        while wanted > 0:
            piece = stream.read(_WINDOW)
            if not piece:
                self._is_last = True
                break
            window.write(piece)
            wanted -= len(piece)
        self._data = window.getvalue()
        self._at = 0

    def _finish(self) -> None:
        """Make sure that nothing is left behind the last record."""
        if self._stream is not None and not self._is_last and self._stream.read(_WINDOW):
            raise trailing_bytes(self._header.records_count, 1)
        self.next_offset = self._header.next_offset
        self._data = b""


def _decode_checked(
    data: bytes,
    header: BatchHeader,
    records: list[Record] | None,
    columns: RecordColumns | None,
    consumer: _ConsumerTarget | None,
    pos: int = 0,
    index: int = 0,
    stop: int = -1,
    is_last: bool = True,
) -> tuple[int, int, int]:
    append_time: int | None = None
    if header.timestamp_type == LOG_APPEND_TIME:
        append_time = header.max_timestamp
    try:
        return _decode(
            data,
            pos,
            index,
            header.records_count if stop < 0 else stop,
            header.records_count,
            is_last,
            header.base_offset,
            header.last_offset_delta,
            header.base_timestamp,
            append_time,
            records,
            columns,
            consumer,
        )
    except IndexError:
        raise ends_early(header.records_count) from None


def _decode(  # noqa: C901 (a flat sequence of fields; calls would cost more than they explain)
    data: bytes,
    pos: i64,
    index: i64,
    stop: i64,
    count: i64,
    is_last: bool,
    base_offset: int,
    last_offset_delta: i64,
    base_timestamp: int,
    append_time: int | None,
    records: list[Record] | None,
    columns: RecordColumns | None,
    consumer: _ConsumerTarget | None,
) -> tuple[i64, i64, i64]:
    """Appends the records from number ``index`` to ``stop`` to the one of the three targets that is
    given; fewer, if ``data`` is not the last there is and ends before.

    Returns how far it got: number and place of the next record, and the last one's offset delta.
    """
    limit: i64 = len(data)
    delta: i64 = -1
    timestamp = 0 if append_time is None else append_time
    key: bytes | None
    value: bytes | None
    headers: Headers
    difference: int  # sums with what the header says may leave 64 bits
    while index < stop:
        start: i64 = pos
        if limit - pos < INT32_BYTES and not is_last:
            break
        size: i64 = data[pos]
        pos += 1
        if size < 0x80:
            size = (size >> 1) ^ -(size & 1)
        else:
            size, pos = finish_varint(data, pos, size, INT32_BYTES)
        end: i64 = pos + size
        if size < 0 or end > limit:
            if size < 0 or is_last:
                raise bad_size(index, "the record", size, limit - pos)
            pos = start
            break

        pos += 1  # attributes, none of which is in use

        delta = data[pos]
        pos += 1
        if delta < 0x80:
            delta = (delta >> 1) ^ -(delta & 1)
        else:
            delta, pos = finish_varint(data, pos, delta, INT64_BYTES)
        if append_time is None:
            difference = delta
            timestamp = base_timestamp + difference

        delta = data[pos]
        pos += 1
        if delta < 0x80:
            delta = (delta >> 1) ^ -(delta & 1)
        else:
            delta, pos = finish_varint(data, pos, delta, INT32_BYTES)
        if delta < 0 or delta > last_offset_delta:
            raise InvalidRecordError(
                f"record {index}: offset delta {delta} is not within 0 to {last_offset_delta}"
            )
        difference = delta

        size = data[pos]
        pos += 1
        if size < 0x80:
            size = (size >> 1) ^ -(size & 1)
        else:
            size, pos = finish_varint(data, pos, size, INT32_BYTES)
        if size == -1:
            key = None
        elif 0 <= size <= end - pos:
            key = data[pos : pos + size]
            pos += size
        else:
            raise bad_size(index, "its key", size, end - pos)

        size = data[pos]
        pos += 1
        if size < 0x80:
            size = (size >> 1) ^ -(size & 1)
        else:
            size, pos = finish_varint(data, pos, size, INT32_BYTES)
        if size == -1:
            value = None
        elif 0 <= size <= end - pos:
            value = data[pos : pos + size]
            pos += size
        else:
            raise bad_size(index, "its value", size, end - pos)

        if data[pos] == 0:
            headers = ()
            pos += 1
        else:
            headers, pos = _read_headers(data, pos, end, index)
        if pos != end:
            raise InvalidRecordError(f"record {index}: its fields do not add up to its size")

        if records is not None:
            records.append(Record(base_offset + difference, timestamp, key, value, headers))
        elif columns is not None:
            columns.offsets.append(base_offset + difference)
            columns.timestamps.append(timestamp)
            columns.keys.append(key)
            columns.values.append(value)
            columns.headers.append(headers)
        elif consumer is not None:
            consumer.add(base_offset + difference, timestamp, key, value, headers)
        index += 1
    if index == count and pos != limit:
        raise trailing_bytes(count, limit - pos)
    return index, pos, delta


def _read_headers(data: bytes, pos: i64, end: i64, index: int) -> tuple[Headers, i64]:
    """The headers of record ``index``, their count at ``pos``; and where they end."""
    count, pos = read_varint(data, pos, INT32_BYTES)
    # Two bytes make the smallest header: no count can be honest beyond that.
    if count < 0 or count > (end - pos) // 2:
        raise InvalidRecordError(f"record {index}: {count} headers in {end - pos} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, pos = read_varint(data, pos, INT32_BYTES)
        if size < 0 or size > end - pos:
            raise bad_size(index, "a header's name", size, end - pos)
        # Kafka's clients replace what is no UTF-8, too: the record is still worth reading.
        name = data[pos : pos + size].decode("utf-8", "replace")
        pos += size
        size, pos = read_varint(data, pos, INT32_BYTES)
        if size == -1:
            headers.append((name, None))
            continue
        if size < 0 or size > end - pos:
            raise bad_size(index, "a header's value", size, end - pos)
        headers.append((name, data[pos : pos + size]))
        pos += size
    return tuple(headers), pos

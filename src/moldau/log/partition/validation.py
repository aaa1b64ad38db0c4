"""Whether a batch may enter the log, and what has to change in it before.

The checks and their order are Kafka's, but they stop at the batch's header: the records of a client
are looked at only where a setting asks for it (keys on a compacted topic, a lower bound on
timestamps) or where the header does not add up. So a batch costs one unpack and one CRC.
"""

from __future__ import annotations

import struct
from typing import Final, NoReturn, TypeAlias

from crc32c import crc32c

from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.log.errors import RecordValidationError
from moldau.records.batch import (
    ATTRIBUTES_OFFSET,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER,
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    iter_headers,
    patch_log_append_time,
    patch_max_timestamp,
    read_header,
)
from moldau.records.compression import Compression
from moldau.records.errors import CorruptRecordError, InvalidRecordError
from moldau.records.reader import read_columns, read_payload
from moldau.records.recompress import recompress
from moldau.records.scan import null_key_indexes

HeaderFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
CheckedBatch: TypeAlias = tuple[HeaderFields, memoryview, int, int]
"""Header as it was sent, bytes to append, largest timestamp, append time (-1 for CreateTime)."""
RecordErrors: TypeAlias = list[tuple[int, str]]
"""Which records of a batch are refused, by their number, and why."""

_MAX_LONG: Final = 2**63 - 1
_NO_TIMESTAMP: Final = -1
_REFUSED_ATTRIBUTES: Final = CONTROL_FLAG | TIMESTAMP_TYPE_FLAG
_LAST_CODEC: Final = max(Compression)
_OVERHEAD_AND_MAGIC: Final = MAGIC_OFFSET + 1
_SMALLEST_ENTRY: Final = 14
_LENGTH: Final = struct.Struct(">i")
_unpack_header = HEADER.unpack_from


class BatchRules:
    """What a topic's settings ask of a batch, prepared once per change of the settings."""

    __slots__ = (
        "_after_max",
        "_before_max",
        "_codec",
        "_compact",
        "_level",
        "_log_append_time",
        "_max_bytes",
        "_plain",
    )

    def __init__(self, config: TopicConfig) -> None:
        self._max_bytes = config.max_message_bytes
        self._before_max = config.message_timestamp_before_max_ms
        self._after_max = config.message_timestamp_after_max_ms
        self._log_append_time = config.message_timestamp_type == "LogAppendTime"
        self._compact = config.compact
        self._codec = _target_codec(config.compression_type)
        self._level = _level(config, self._codec)
        self._plain = (
            not self._log_append_time
            and not self._compact
            and self._codec is None
            and self._before_max == _MAX_LONG
        )

    def check(self, records: memoryview, now_ms: int) -> CheckedBatch:
        """Check what one produce request holds for one partition: exactly one batch."""
        if len(records) < HEADER_SIZE:
            _refuse_fragment(records)
        fields: HeaderFields = _unpack_header(records)
        (
            base_offset,
            length,
            _,
            magic,
            crc,
            attributes,
            delta,
            first,
            largest,
            pid,
            _,
            seq,
            count,
        ) = fields
        size = length + LOG_OVERHEAD
        if (
            magic != MAGIC
            or size != len(records)
            or base_offset != 0
            or size > self._max_bytes
            or crc32c(records[ATTRIBUTES_OFFSET:]) != crc
            or count <= 0
            or delta != count - 1
            or attributes & _REFUSED_ATTRIBUTES
            or (attributes & COMPRESSION_MASK) > _LAST_CODEC
            or (pid >= 0 and seq < 0)
            or largest < first
        ):
            records = self._examine(records)
            return self._finish(records, now_ms)
        if self._plain and largest - now_ms <= self._after_max:
            return fields, records, largest, _NO_TIMESTAMP
        return self._finish(records, now_ms)

    def check_own(self, records: memoryview) -> None:
        """Check batches that a coordinator of this broker wrote."""
        for size in check_batches(records):
            if size > self._max_bytes:
                self._refuse_size(size)

    def stamp(self, records: memoryview, position: int, header: BatchHeader, now_ms: int) -> int:
        """Apply the timestamp type; returns the largest timestamp of the batch."""
        if self._log_append_time:
            patch_log_append_time(records, position, header.size, now_ms)
            return now_ms
        return header.max_timestamp

    @property
    def log_append_time(self) -> bool:
        return self._log_append_time

    # The slow path: something is unusual ---------------------------------------------------------

    def _examine(self, records: memoryview) -> memoryview:
        """Find what is wrong with a batch, in the order Kafka looks; or cut it to its size."""
        header = read_header(records)
        size = header.size
        if header.batch_length < _SMALLEST_ENTRY or header.magic not in (0, 1, MAGIC):
            raise CorruptRecordError(
                f"no record batch: length {header.batch_length}, magic {header.magic}"
            )
        if size > len(records):
            raise InvalidRecordError("the request holds no complete record batch")
        if header.magic != MAGIC:
            raise InvalidRecordError(
                f"message format v{header.magic} is not accepted, only v{MAGIC}"
            )
        _refuse_second_batch(records[size:])
        records = records[:size]
        if header.base_offset != 0:
            raise InvalidRecordError(
                f"the base offset of a new record batch is 0, not {header.base_offset}"
            )
        if size > self._max_bytes:
            self._refuse_size(size)
        if size < HEADER_SIZE or crc32c(records[ATTRIBUTES_OFFSET:]) != header.crc:
            raise CorruptRecordError("the CRC of the record batch is wrong")
        _check_header(header)
        return records

    def _refuse_size(self, size: int) -> NoReturn:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the record batch has {size} bytes, max.message.bytes allows {self._max_bytes}",
        )

    def _finish(self, records: memoryview, now_ms: int) -> CheckedBatch:
        """What a plain batch on a plain topic does not need: records, codec, timestamps."""
        header = read_header(records)
        without_key = _find_missing_keys(records, header) if self._compact else []
        largest = self._check_timestamps(records, header, now_ms, without_key)
        if without_key:
            raise _key_error(without_key)
        if self._codec is not None and self._codec != header.compression:
            records = self._recompress(records)
        append_time = _NO_TIMESTAMP
        if self._log_append_time:
            append_time = largest = now_ms
            patch_log_append_time(records, 0, len(records), now_ms)
        elif largest != header.max_timestamp or header.attributes & TIMESTAMP_TYPE_FLAG:
            patch_max_timestamp(records, 0, len(records), largest)
        return header, records, largest, append_time

    def _check_timestamps(
        self, records: memoryview, header: BatchHeader, now_ms: int, refused: RecordErrors
    ) -> int:
        """Returns the batch's true largest timestamp, if all its timestamps may be.

        Of those records that are ``refused`` already the time does not matter; but if any other is
        refused for its time, that is the error of the batch.
        """
        largest = header.max_timestamp
        if self._log_append_time:
            if header.attributes & TIMESTAMP_TYPE_FLAG:
                wrong = "A producer may not set the timestamp type to LogAppendTime."
                raise _timestamp_error([(i, wrong) for i in range(header.records_count)])
            return largest
        too_late = largest - now_ms > self._after_max
        if not too_late and self._before_max == _MAX_LONG and largest >= header.base_timestamp:
            return largest
        timestamps = read_columns(records, check_crc=False).timestamps
        errors = [
            (index, self._out_of_range(index, timestamp, now_ms))
            for index, timestamp in enumerate(timestamps)
            if timestamp != _NO_TIMESTAMP
            and not -self._after_max <= now_ms - timestamp <= self._before_max
        ]
        if refused:
            known = {index for index, _ in refused}
            errors = [error for error in errors if error[0] not in known]
        if errors:
            raise _timestamp_error(sorted(errors + refused))
        return max(timestamps)

    def _out_of_range(self, index: int, timestamp: int, now_ms: int) -> str:
        return (
            f"Timestamp {timestamp} of message with offset {index} is out of range. The timestamp "
            f"should be within [{now_ms - self._before_max}, {now_ms + self._after_max}]"
        )

    def _recompress(self, records: memoryview) -> memoryview:
        """Returns the same batch with the topic's codec."""
        assert self._codec is not None
        batch = recompress(records, self._codec, self._level)
        if len(batch) > self._max_bytes:
            self._refuse_size(len(batch))
        return memoryview(batch)


def check_batches(records: memoryview) -> list[int]:
    """Sizes of the complete batches, each with a valid CRC; an incomplete last one is left."""
    sizes = []
    for position, header in iter_headers(records):
        size = header.size
        if crc32c(records[position + ATTRIBUTES_OFFSET : position + size]) != header.crc:
            raise CorruptRecordError("the CRC of a record batch is wrong")
        sizes.append(size)
    return sizes


def _target_codec(compression_type: str) -> Compression | None:
    """Returns the codec batches are stored with; None keeps the producer's."""
    if compression_type == "producer":
        return None
    if compression_type == "uncompressed":
        return Compression.NONE
    return Compression.from_label(compression_type)


def _level(config: TopicConfig, codec: Compression | None) -> int | None:
    levels = {
        Compression.GZIP: config.compression_gzip_level,
        Compression.LZ4: config.compression_lz4_level,
        Compression.ZSTD: config.compression_zstd_level,
    }
    return None if codec is None else levels.get(codec)


def _refuse_fragment(records: memoryview) -> NoReturn:
    """Too short for a v2 header: still say what Kafka would about these bytes."""
    if len(records) >= _OVERHEAD_AND_MAGIC:
        (length,) = _LENGTH.unpack_from(records, LENGTH_OFFSET)
        magic = records[MAGIC_OFFSET]
        if length < _SMALLEST_ENTRY or magic not in (0, 1, MAGIC):
            raise CorruptRecordError(f"no record batch: length {length}, magic {magic}")
        if magic != MAGIC and length + LOG_OVERHEAD <= len(records):
            raise InvalidRecordError(f"message format v{magic} is not accepted, only v{MAGIC}")
    raise InvalidRecordError("the request holds no complete record batch")


def _refuse_second_batch(rest: memoryview) -> None:
    """A partition of a produce request holds one batch; an incomplete one behind it is dropped."""
    if len(rest) < _OVERHEAD_AND_MAGIC:
        return
    (length,) = _LENGTH.unpack_from(rest, LENGTH_OFFSET)
    if length < _SMALLEST_ENTRY or rest[MAGIC_OFFSET] > MAGIC:
        raise CorruptRecordError("bytes after the record batch are no record batch")
    if length + LOG_OVERHEAD <= len(rest):
        raise InvalidRecordError("a produce request holds exactly one record batch per partition")


def _check_header(header: BatchHeader) -> None:
    """What a client may put into a header."""
    if header.last_offset_delta < 0:
        raise InvalidRecordError(f"last offset delta {header.last_offset_delta} is negative")
    if header.records_count <= 0:
        raise InvalidRecordError(f"a record batch of {header.records_count} records")
    if header.last_offset_delta + 1 != header.records_count:
        raise InvalidRecordError(
            f"{header.records_count} records do not fit the last offset delta "
            f"{header.last_offset_delta}"
        )
    if header.compression > _LAST_CODEC:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no codec {header.compression}"
        )
    if header.is_control:
        raise InvalidRecordError("clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecordError(
            f"sequence {header.base_sequence} in a batch of producer {header.producer_id}"
        )


def _find_missing_keys(records: memoryview, header: BatchHeader) -> RecordErrors:
    indexes = null_key_indexes(read_payload(records, 0, header), header.records_count)
    return [(index, "Compacted topic cannot accept message without key") for index in indexes]


def _key_error(errors: RecordErrors) -> RecordValidationError:
    return RecordValidationError(
        ErrorCode.INVALID_RECORD,
        f"{len(errors)} records have no key, on a compacted topic each needs one",
        errors,
    )


def _timestamp_error(errors: RecordErrors) -> RecordValidationError:
    return RecordValidationError(
        ErrorCode.INVALID_TIMESTAMP,
        "One or more records have been rejected due to invalid timestamp",
        errors,
    )

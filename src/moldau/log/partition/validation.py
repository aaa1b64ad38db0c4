"""Whether a batch may enter the log, and what has to change in it before.

The checks and their order are Kafka's: the header with one unpack, the CRC, then one pass over all
records, compressed or not (docs/adr/0017-records-are-checked.md says what it costs). Nothing is
made of the records, and of what compressed ones come to there is a window in memory at a time.
"""

from __future__ import annotations

import struct
from typing import Final, NoReturn, TypeAlias

from crc32c import crc32c

from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.log.errors import LongCheckError, RecordValidationError
from moldau.log.partition.budget import (
    COMPRESSION_WEIGHT,
    PART_COST,
    DecompressionBudget,
    batch_limit,
)
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
from moldau.records.compression import Compression, open_stream
from moldau.records.errors import (
    CorruptRecordError,
    DecompressionLimitError,
    InvalidRecordError,
)
from moldau.records.recompress import recompress
from moldau.records.streams import check_lz4_flags
from moldau.records.walk import MAX_LISTED, MAX_LONG, MIN_LONG, RecordWalk

HeaderFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
CheckedBatch: TypeAlias = tuple[HeaderFields, memoryview, int, int]
"""Header as it was sent, bytes to append, largest timestamp, append time (-1 for CreateTime)."""
RecordErrors: TypeAlias = list[tuple[int, str]]
"""Which records of a batch are refused, by their number, and why."""

_NO_TIMESTAMP: Final = -1
_NO_KEY: Final = "Compacted topic cannot accept message without key"
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
        "_as_it_is",
        "_before_max",
        "_changes",
        "_codec",
        "_compact",
        "_level",
        "_log_append_time",
        "_max_bytes",
        "_max_decompressed",
    )

    def __init__(self, config: TopicConfig) -> None:
        self._max_bytes = config.max_message_bytes
        self._before_max = config.message_timestamp_before_max_ms
        self._after_max = config.message_timestamp_after_max_ms
        self._log_append_time = config.message_timestamp_type == "LogAppendTime"
        self._compact = config.compact
        self._codec = _target_codec(config.compression_type)
        self._level = _level(config, self._codec)
        self._as_it_is = Compression.NONE if self._codec in (None, Compression.NONE) else -1
        """The codec whose payloads can be walked over as they are, and stored so."""
        self._changes = self._log_append_time or self._codec is not None
        """Whether a proper batch may have to be changed, too."""
        self._max_decompressed = batch_limit(self._max_bytes)
        if self._codec is Compression.NONE:
            self._max_decompressed = self._max_bytes

    def check(
        self, records: memoryview, now_ms: int, budget: DecompressionBudget | None = None
    ) -> CheckedBatch:
        """Check what one produce request holds for one partition: exactly one batch.

        LongCheckError if the budget has not enough left for the event loop; a thread needs none.
        """
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
        ):
            records = self._examine(records)
        if self._log_append_time:
            walk = RecordWalk(count, self._compact)
        else:
            earliest, latest = self._time_bounds(first, now_ms)
            walk = RecordWalk(count, self._compact, earliest, latest, _NO_TIMESTAMP - first)
        codec = attributes & COMPRESSION_MASK
        if codec == self._as_it_is:
            walk.over(records[HEADER_SIZE:])
        else:
            self._walk_long(walk, records, codec, budget)
        if walk.keyless_count or walk.untimely_count:
            raise self._refusal(walk, first, now_ms)
        if first + walk.max_time == largest and not (
            self._changes or attributes & TIMESTAMP_TYPE_FLAG
        ):
            return fields, records, largest, _NO_TIMESTAMP
        return self._finish(records, first + walk.max_time, now_ms)

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

    # The records ---------------------------------------------------------------------------------

    def _time_bounds(self, base_timestamp: int, now_ms: int) -> tuple[int, int]:
        """Returns the timestamp deltas that may be, smallest and largest, within 64 bits."""
        latest = now_ms + self._after_max - base_timestamp
        if self._before_max == MAX_LONG and 0 <= base_timestamp <= MAX_LONG - latest:
            return MIN_LONG, latest
        earliest = now_ms - self._before_max - base_timestamp
        if latest > MAX_LONG - base_timestamp or not MIN_LONG <= earliest <= latest <= MAX_LONG:
            latest = min(latest, MAX_LONG - base_timestamp, MAX_LONG)
            earliest = max(earliest, MIN_LONG - base_timestamp, MIN_LONG)
            if earliest > MAX_LONG or latest < MIN_LONG:
                return 1, 0
        return earliest, latest

    def _walk_long(
        self,
        walk: RecordWalk,
        records: memoryview,
        codec: int,
        budget: DecompressionBudget | None,
    ) -> None:
        """Walk over records that have to be decompressed, or will have to be compressed: within the
        budget of the event loop, unless there is none because this is a thread.
        """
        payload = records[HEADER_SIZE:]
        stays = self._codec in (None, Compression.NONE, codec)
        weight = 1 if stays else COMPRESSION_WEIGHT
        here = MAX_LONG if budget is None else budget.at_once // weight
        if codec == Compression.NONE:
            if len(payload) > here:
                raise LongCheckError
            walk.over(payload)
            if budget is not None:
                budget.at_once -= weight * len(payload)
            return
        if here <= 0:
            raise LongCheckError
        if codec == Compression.LZ4:
            check_lz4_flags(payload)
        limit = self._max_decompressed
        part_cost = 0 if budget is None else PART_COST
        stream = open_stream(codec, payload, min(limit, here), part_cost)
        try:
            walk.over_stream(stream)
        except DecompressionLimitError:
            if budget is not None:
                budget.at_once = 0
                raise LongCheckError from None
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE, f"the records decompress to more than {limit} bytes"
            ) from None
        finally:
            if budget is not None:
                budget.at_once -= weight * stream.cost

    def _refusal(self, walk: RecordWalk, base_timestamp: int, now_ms: int) -> RecordValidationError:
        """Returns why the topic does not want the batch: a wrong time counts more than the lack of
        a key.
        """
        errors = [(index, _NO_KEY) for index in walk.keyless]
        if not walk.untimely_count:
            return RecordValidationError(
                ErrorCode.INVALID_RECORD,
                f"{walk.keyless_count} records have no key, on a compacted topic each needs one",
                errors,
            )
        errors += [
            (index, self._out_of_range(index, base_timestamp + delta, now_ms))
            for index, delta in walk.untimely
        ]
        return _timestamp_error(sorted(errors)[:MAX_LISTED])

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

    def _finish(self, records: memoryview, largest: int, now_ms: int) -> CheckedBatch:
        """What a batch does not need that is stored as it came: another codec, other times."""
        header = read_header(records)
        if header.attributes & TIMESTAMP_TYPE_FLAG:
            self._check_append_time(header, now_ms)
        if self._codec is not None and self._codec != header.compression:
            records = self._recompress(records)
        append_time = _NO_TIMESTAMP
        if self._log_append_time:
            append_time = largest = now_ms
            patch_log_append_time(records, 0, len(records), now_ms)
        else:
            largest = max(largest, _NO_TIMESTAMP)
            if largest != header.max_timestamp or header.attributes & TIMESTAMP_TYPE_FLAG:
                patch_max_timestamp(records, 0, len(records), largest)
        return header, records, largest, append_time

    def _check_append_time(self, header: BatchHeader, now_ms: int) -> None:
        """Look at the time that a client has given all records of its batch together, as Kafka
        does. It is not stored: the times of the records are, and they were looked at before.
        """
        largest = header.max_timestamp
        numbers = range(min(header.records_count, MAX_LISTED))
        if self._log_append_time:
            wrong = "A producer may not set the timestamp type to LogAppendTime."
            raise _timestamp_error([(index, wrong) for index in numbers])
        if (
            largest != _NO_TIMESTAMP
            and not -self._after_max <= now_ms - largest <= self._before_max
        ):
            raise _timestamp_error(
                [(index, self._out_of_range(index, largest, now_ms)) for index in numbers]
            )

    def _out_of_range(self, index: int, timestamp: int, now_ms: int) -> str:
        return (
            f"Timestamp {timestamp} of message with offset {index} is out of range. The timestamp "
            f"should be within [{now_ms - self._before_max}, {now_ms + self._after_max}]"
        )

    def _recompress(self, records: memoryview) -> memoryview:
        """Returns the same batch with the topic's codec."""
        assert self._codec is not None
        batch = recompress(records, self._codec, self._level, limit=self._max_decompressed)
        if len(batch) > self._max_bytes:
            self._refuse_size(len(batch))
        return memoryview(batch)


def stamped_now(checked: CheckedBatch, now_ms: int) -> CheckedBatch:
    """Returns a batch that was checked earlier with the append time of now, if it has one: times of
    a log must not go back.
    """
    fields, records, _, append_time = checked
    if append_time == _NO_TIMESTAMP:
        return checked
    patch_log_append_time(records, 0, len(records), now_ms)
    return fields, records, now_ms, now_ms


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


def _timestamp_error(errors: RecordErrors) -> RecordValidationError:
    return RecordValidationError(
        ErrorCode.INVALID_TIMESTAMP,
        "One or more records have been rejected due to invalid timestamp",
        errors,
    )

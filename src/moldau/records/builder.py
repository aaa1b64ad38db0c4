"""From records to the bytes of a record batch.

Records are kept as pieces, large values as they came, and joined behind room for the header when
the batch is complete: one allocation of the right size, one copy. (A buffer that grows record by
record is moved many times.) Compiled by mypyc where a compiler was at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from moldau.records.batch import (
    CONTROL_FLAG,
    CREATE_TIME,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    Buffer,
    write_crc,
)
from moldau.records.compression import Compression, compress
from moldau.records.errors import InvalidRecordError
from moldau.records.record import Record
from moldau.records.varint import encode_varint

MAX_BATCH_SIZE: Final = 0x7FFFFFFF
MAX_RECORD_OVERHEAD: Final = 31
"""Most bytes a record takes beside its key, its value and its headers."""

_ESTIMATE_MARGIN: Final = 1.05
_LARGE_VALUE: Final = 512
"""From here on a value is not copied into its record's piece."""


_HEADER_ROOM: Final = bytes(HEADER_SIZE)


class BatchBuilder:
    """A batch that grows record by record.

    ``compression_ratio`` is what the caller expects of the codec, from batches before this one.
    """

    __slots__ = (
        "_base_timestamp",
        "_closed",
        "_compression",
        "_compression_ratio",
        "_count",
        "_last_offset_delta",
        "_level",
        "_max_timestamp",
        "_pieces",
        "_size",
    )

    def __init__(
        self,
        *,
        compression: int = Compression.NONE,
        level: int | None = None,
        compression_ratio: float = 1.0,
    ) -> None:
        self._compression = int(compression)
        self._level = level
        self._compression_ratio = compression_ratio
        self._pieces: list[Buffer] = [_HEADER_ROOM]
        self._size = HEADER_SIZE
        self._count = 0
        self._last_offset_delta = -1
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self._closed = False

    @property
    def compression(self) -> int:
        return self._compression

    @property
    def level(self) -> int | None:
        return self._level

    @property
    def count(self) -> int:
        """Records in the batch so far."""
        return self._count

    @property
    def size(self) -> int:
        """Bytes the batch takes without compression."""
        return self._size

    @property
    def estimated_size(self) -> int:
        """Bytes the batch will probably take; exact without a codec."""
        size = self._size
        if self._compression == Compression.NONE:
            return size
        payload = (size - HEADER_SIZE) * self._compression_ratio * _ESTIMATE_MARGIN
        return HEADER_SIZE + int(payload)

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> int:
        """Adds a record behind the last one and returns its offset delta."""
        delta = self._last_offset_delta + 1
        self.append_at(delta, timestamp, key, value, headers)
        return delta

    def append_at(
        self,
        offset_delta: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Adds a record at ``offset_delta``, which may leave a gap to the one before."""
        if self._closed:
            raise ValueError("the batch is built, nothing can be added")
        if offset_delta <= self._last_offset_delta:
            raise ValueError(
                f"offset delta {offset_delta} does not follow {self._last_offset_delta}"
            )
        if self._count == 0:
            self._base_timestamp = timestamp
            self._max_timestamp = timestamp
        elif timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        self._size += _append_record(
            self._pieces, timestamp - self._base_timestamp, offset_delta, key, value, headers
        )
        self._last_offset_delta = offset_delta
        self._count += 1

    def fill(self, records: Buffer, count: int, base_timestamp: int, max_timestamp: int) -> None:
        """Makes encoded records, offset deltas from 0 on without a gap, the whole batch."""
        if self._closed or self._count != 0 or count <= 0:
            raise ValueError("only an empty batch is filled, and not without records")
        self._pieces.append(records)
        self._size += len(records)
        self._count = count
        self._last_offset_delta = count - 1
        self._base_timestamp = base_timestamp
        self._max_timestamp = max_timestamp

    def build(
        self,
        *,
        base_offset: int = 0,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        leader_epoch: int = NO_LEADER_EPOCH,
        timestamp_type: int = CREATE_TIME,
    ) -> bytearray:
        """Closes the batch and returns its bytes."""
        if self._closed or self._count == 0:
            raise ValueError("a batch is built once, and not without records")
        self._closed = True
        pieces = self._pieces
        self._pieces = []
        if self._compression == Compression.NONE:
            batch = bytearray().join(pieces)
        else:
            payload = compress(self._compression, b"".join(pieces[1:]), self._level)
            batch = bytearray().join((_HEADER_ROOM, payload))
        size = len(batch)
        if size > MAX_BATCH_SIZE:
            raise InvalidRecordError(f"a batch of {size} bytes is more than the format can hold")
        attributes = self._compression
        if timestamp_type != CREATE_TIME:
            attributes |= TIMESTAMP_TYPE_FLAG
        if transactional:
            attributes |= TRANSACTIONAL_FLAG
        if control:
            attributes |= CONTROL_FLAG
        HEADER.pack_into(
            batch,
            0,
            base_offset,
            size - LOG_OVERHEAD,
            leader_epoch,
            MAGIC,
            0,
            attributes,
            self._last_offset_delta,
            self._base_timestamp,
            self._max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self._count,
        )
        write_crc(batch, 0, size)
        return batch


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    compression: int = Compression.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = NO_LEADER_EPOCH,
    timestamp_type: int = CREATE_TIME,
    keep_offsets: bool = False,
) -> bytearray:
    """One batch of all ``records``.

    They get consecutive offsets from ``base_offset``, as a producer's do. With ``keep_offsets``
    they keep their own instead, which must be increasing and not below the base offset.
    """
    builder = BatchBuilder(compression=compression, level=level)
    for index, record in enumerate(records):
        delta = record.offset - base_offset if keep_offsets else index
        builder.append_at(delta, record.timestamp, record.key, record.value, record.headers)
    return builder.build(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        leader_epoch=leader_epoch,
        timestamp_type=timestamp_type,
    )


def record_size_bound(
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> int:
    """Bytes an encoded record takes at most, wherever in a batch it stands."""
    size = MAX_RECORD_OVERHEAD
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    if headers:
        size += len(_encode_headers(headers))
    return size


def _append_record(
    pieces: list[Buffer],
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> int:
    """Adds the record's pieces and returns their size."""
    timestamp_bytes = encode_varint(timestamp_delta)
    offset_bytes = encode_varint(offset_delta)
    if key is None:
        key = b""
        key_size = b"\x01"
    else:
        key_size = encode_varint(len(key))
    if value is None:
        value = b""
        value_size = b"\x01"
    else:
        value_size = encode_varint(len(value))
    header_bytes = _encode_headers(headers) if headers else b"\x00"
    size = (
        1
        + len(timestamp_bytes)
        + len(offset_bytes)
        + len(key_size)
        + len(key)
        + len(value_size)
        + len(value)
        + len(header_bytes)
    )
    size_bytes = encode_varint(size)
    # One formatting operation costs less than joining the parts one after the other.
    if len(value) < _LARGE_VALUE:
        pieces.append(
            b"%b\x00%b%b%b%b%b%b%b"
            % (
                size_bytes,
                timestamp_bytes,
                offset_bytes,
                key_size,
                key,
                value_size,
                value,
                header_bytes,
            )
        )
    else:
        pieces.append(
            b"%b\x00%b%b%b%b%b"
            % (size_bytes, timestamp_bytes, offset_bytes, key_size, key, value_size)
        )
        pieces.append(value)
        pieces.append(header_bytes)
    return len(size_bytes) + size


def _encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    parts: list[bytes] = [encode_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts.append(encode_varint(len(encoded)))
        parts.append(encoded)
        if value is None:
            parts.append(b"\x01")
        else:
            parts.append(encode_varint(len(value)))
            parts.append(value)
    return b"".join(parts)

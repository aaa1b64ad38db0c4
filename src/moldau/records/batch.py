"""The header of a record batch (message format v2) and what a broker does to it in place.

A broker never looks past these 61 bytes on its hot path: it reads the header with one unpack,
checks the CRC, and writes the base offset and the leader epoch into the buffer the batch came in.
Both fields lie before the CRC's range, so the producer's checksum stays valid::

    0   base offset             int64    ┐ log overhead: an entry's offset and length,
    8   batch length            int32    ┘ the same in all formats
    12  partition leader epoch  int32
    16  magic                   int8     2
    17  crc                     uint32   CRC-32C of everything that follows
    21  attributes              int16    bits 0-2 compression, 3 timestamp type, 4 transactional,
                                         5 control, 6 base timestamp is a delete horizon
    23  last offset delta       int32
    27  base timestamp          int64
    35  max timestamp           int64
    43  producer id             int64
    51  producer epoch          int16
    53  base sequence           int32
    57  records count           int32
    61  records, compressed as a whole if there is a codec
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from moldau.records.errors import CorruptRecordError, InvalidRecordError

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes that can be read in place; a memoryview must be contiguous and of unsigned bytes."""

WritableBuffer: TypeAlias = bytearray | memoryview

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
"""Size of base offset and batch length, which the batch length itself does not count."""

BASE_OFFSET_OFFSET: Final = 0
LENGTH_OFFSET: Final = 8
LEADER_EPOCH_OFFSET: Final = 12
MAGIC_OFFSET: Final = 16
CRC_OFFSET: Final = 17
ATTRIBUTES_OFFSET: Final = 21
LAST_OFFSET_DELTA_OFFSET: Final = 23
BASE_TIMESTAMP_OFFSET: Final = 27
MAX_TIMESTAMP_OFFSET: Final = 35
PRODUCER_ID_OFFSET: Final = 43
PRODUCER_EPOCH_OFFSET: Final = 51
BASE_SEQUENCE_OFFSET: Final = 53
RECORDS_COUNT_OFFSET: Final = 57

MAGIC: Final = 2

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

MAX_SEQUENCE: Final = 0x7FFFFFFF

_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_TIMESTAMP: Final = struct.Struct(">q")
_OVERHEAD: Final = struct.Struct(">qi")
_LEADER_EPOCH: Final = struct.Struct(">i")
_PRODUCER: Final = struct.Struct(">qhi")


class BatchHeader(NamedTuple):
    """The fixed fields of one batch, in wire order."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """Bytes the whole batch takes, from its base offset to its last record."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """Codec number; ``Compression(…)`` refuses the unassigned ones."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> int:
        """``CREATE_TIME`` or ``LOG_APPEND_TIME``."""
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_FLAG else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may drop the tombstones (KIP-534); kept as the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap to 0 after 2^31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE


_unpack_header = HEADER.unpack_from
_make_header = BatchHeader._make


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header at ``pos``, as it stands; only its being complete is checked."""
    try:
        return _make_header(_unpack_header(buf, pos))
    except struct.error:
        raise CorruptRecordError(
            f"a record batch header needs {HEADER_SIZE} bytes, "
            f"there are {max(len(buf) - pos, 0)} at position {pos}"
        ) from None


def iter_headers(
    buf: Buffer, pos: int = 0, end: int | None = None, *, allow_partial_tail: bool = True
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each complete batch in ``buf[pos:end]``.

    A batch cut off by the end of the buffer ends the iteration, as a fetch answer may be cut
    anywhere; with ``allow_partial_tail=False`` it is an error. What cannot be a batch at all raises
    CorruptRecordError, the formats before v2 InvalidRecordError. The CRC is not looked at.
    """
    limit = len(buf) if end is None else end
    while limit - pos >= HEADER_SIZE:
        header = _make_header(_unpack_header(buf, pos))
        size = header.batch_length + LOG_OVERHEAD
        if header.magic != MAGIC or size < HEADER_SIZE:
            raise _unreadable(header, pos)
        if size > limit - pos:
            break
        yield pos, header
        pos += size
    if pos < limit:
        _check_partial(buf, pos, limit, allow_partial_tail)


def _unreadable(header: BatchHeader, pos: int) -> CorruptRecordError | InvalidRecordError:
    if header.magic in (0, 1):
        return InvalidRecordError(
            f"message format v{header.magic} at position {pos}; only v{MAGIC} is accepted"
        )
    if header.magic != MAGIC:
        return CorruptRecordError(f"magic {header.magic} at position {pos} is no message format")
    return CorruptRecordError(
        f"batch at position {pos} claims {header.size} bytes, less than its own header"
    )


def _check_partial(buf: Buffer, pos: int, limit: int, allowed: bool) -> None:
    """Looks at what is left of a batch: even cut off, its length must be a possible one."""
    if limit - pos >= LOG_OVERHEAD:
        size = _OVERHEAD.unpack_from(buf, pos)[1] + LOG_OVERHEAD
        # The smallest entry of any format: the old ones had 14 bytes after the overhead.
        if size < LOG_OVERHEAD + 14:
            raise CorruptRecordError(
                f"entry at position {pos} claims {size} bytes, no entry is so small"
            )
    if not allowed:
        raise CorruptRecordError(f"the last {limit - pos} bytes are not a complete record batch")


def compute_crc(buf: Buffer, pos: int, size: int) -> int:
    """CRC-32C of the batch of ``size`` bytes at ``pos``, from its attributes to its end."""
    checksum: int = crc32c(memoryview(buf)[pos + ATTRIBUTES_OFFSET : pos + size])
    return checksum


def crc_is_valid(buf: Buffer, pos: int, size: int) -> bool:
    """Returns whether the batch of ``size`` bytes at ``pos`` is all there, with the CRC its header
    says.
    """
    if size < HEADER_SIZE or len(buf) - pos < size:
        return False
    stored: int = _CRC.unpack_from(buf, pos + CRC_OFFSET)[0]
    checksum: int = crc32c(memoryview(buf)[pos + ATTRIBUTES_OFFSET : pos + size])
    return checksum == stored


def write_crc(buf: WritableBuffer, pos: int, size: int) -> int:
    """Computes the CRC of the batch at ``pos`` and writes it into the header."""
    checksum = compute_crc(buf, pos, size)
    _CRC.pack_into(buf, pos + CRC_OFFSET, checksum)
    return checksum


def patch_offset_and_epoch(
    buf: WritableBuffer, pos: int, base_offset: int, leader_epoch: int
) -> None:
    """Gives the batch its place in the log. Neither field is covered by the CRC."""
    _TIMESTAMP.pack_into(buf, pos, base_offset)
    _LEADER_EPOCH.pack_into(buf, pos + LEADER_EPOCH_OFFSET, leader_epoch)


def patch_log_append_time(buf: WritableBuffer, pos: int, size: int, timestamp: int) -> None:
    """Stamps the batch with the broker's time: all its records have the max timestamp from then."""
    attributes: int = _ATTRIBUTES.unpack_from(buf, pos + ATTRIBUTES_OFFSET)[0]
    _ATTRIBUTES.pack_into(buf, pos + ATTRIBUTES_OFFSET, attributes | TIMESTAMP_TYPE_FLAG)
    _TIMESTAMP.pack_into(buf, pos + MAX_TIMESTAMP_OFFSET, timestamp)
    write_crc(buf, pos, size)


def patch_max_timestamp(buf: WritableBuffer, pos: int, size: int, timestamp: int) -> None:
    """Corrects the max timestamp of a batch with create time."""
    attributes: int = _ATTRIBUTES.unpack_from(buf, pos + ATTRIBUTES_OFFSET)[0]
    _ATTRIBUTES.pack_into(buf, pos + ATTRIBUTES_OFFSET, attributes & ~TIMESTAMP_TYPE_FLAG)
    _TIMESTAMP.pack_into(buf, pos + MAX_TIMESTAMP_OFFSET, timestamp)
    write_crc(buf, pos, size)


def patch_producer(
    buf: WritableBuffer,
    pos: int,
    size: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> None:
    """Gives a batch that is built already its producer and its place in the producer's sequence."""
    _PRODUCER.pack_into(buf, pos + PRODUCER_ID_OFFSET, producer_id, producer_epoch, base_sequence)
    write_crc(buf, pos, size)

"""Walking over the batches of a segment file, good or bad."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from moldau.errors import KafkaError
from moldau.machine.disk import File
from moldau.records.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, crc_is_valid
from moldau.records.reader import read_records

_READ_BYTES: Final = 1 << 20


class Walked(NamedTuple):
    position: int
    header: BatchHeader
    data: bytes
    at: int
    """Where in ``data`` the batch begins."""
    crc_ok: bool


class Unreadable(NamedTuple):
    """From here on nothing can be made out."""

    position: int
    size: int
    is_zero: bool


def walk(file: File) -> Iterator[Walked | Unreadable]:
    """Every batch with the state of its CRC; one last item if the end is no batch."""
    unpack, make = HEADER.unpack_from, BatchHeader._make
    position, end = 0, file.size
    while position < end:
        chunk = file.pread(min(_READ_BYTES, end - position), position)
        at, limit = 0, len(chunk)
        while limit - at >= HEADER_SIZE:
            header = make(unpack(chunk, at))
            size = header.batch_length + LOG_OVERHEAD
            if header.magic != MAGIC or size < HEADER_SIZE or position + at + size > end:
                break
            if at + size > limit:
                if at:
                    break
                chunk = file.pread(size, position)
            yield Walked(position + at, header, chunk, at, crc_is_valid(chunk, at, size))
            at += size
        if at == 0:
            yield Unreadable(position, end - position, not any(chunk))
            return
        position += at


def look_into(batch: Walked) -> tuple[int, str | None]:
    """Returns the number of records, and what is wrong with them: all of them are decoded."""
    header = batch.header
    try:
        records = read_records(batch.data, batch.at, check_crc=False)
    except KafkaError as error:
        return 0, f"the records cannot be read: {error.message}"
    if len(records) != header.records_count:
        return len(records), f"{len(records)} records, the header says {header.records_count}"
    previous = header.base_offset - 1
    for record in records:
        if not previous < record.offset <= header.last_offset:
            return len(records), f"record {record.offset} does not follow {previous}"
        previous = record.offset
    return len(records), None

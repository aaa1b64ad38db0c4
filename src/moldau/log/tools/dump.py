"""The files of a log directory as rows, for ``moldau log dump``.

Reads only, so it may look at the files of a running broker. What does not add up is reported beside
the rows instead of ending the dump: this is the tool for damaged files.

    for dump in dump_paths(["data/orders-0"], records=True):
        for row in dump.rows: ...
        dump.problems   # filled while the rows are read
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from typing import NamedTuple, TypeAlias
from uuid import UUID

from moldau.errors import KafkaError
from moldau.log.errors import CorruptCheckpointError, CorruptSnapshotError
from moldau.log.files.checkpoints import read_offsets
from moldau.log.files.meta_properties import MetaProperties
from moldau.log.files.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_SUFFIX,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    parse_file_name,
)
from moldau.log.files.partition_metadata import read_partition_metadata
from moldau.log.files.producer_snapshot import SnapshotEntry, decode_snapshot
from moldau.log.partition.leader_epochs import EpochEntry, LeaderEpochs
from moldau.log.segment import offset_index, time_index, transaction_index
from moldau.log.segment.batches import iter_file_headers
from moldau.log.segment.offset_index import OffsetPosition
from moldau.log.segment.time_index import TimestampOffset
from moldau.log.segment.transaction_index import AbortedTransaction
from moldau.log.tools.dump_index import check_index, check_time_index
from moldau.log.tools.files import (
    DISK,
    is_directory,
    list_directories,
    list_files,
    open_for_reading,
)
from moldau.machine.disk import File
from moldau.records.batch import LOG_APPEND_TIME, BatchHeader, crc_is_valid
from moldau.records.compression import Compression
from moldau.records.control import ControlType, read_control_type
from moldau.records.reader import read_records


class BatchRow(NamedTuple):
    """One record batch, as its header says."""

    base_offset: int
    last_offset: int
    records_count: int
    base_sequence: int
    last_sequence: int
    producer_id: int
    producer_epoch: int
    partition_leader_epoch: int
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None
    position: int
    timestamp_type: str
    max_timestamp: int
    size: int
    magic: int
    compression: str
    crc: int
    is_valid: bool


class RecordRow(NamedTuple):
    """One record; ``control`` names what a control record is."""

    offset: int
    timestamp: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    control: str | None


class OffsetRow(NamedTuple):
    """One line of an offset checkpoint."""

    topic: str
    partition: int
    offset: int


class TopicIdRow(NamedTuple):
    topic_id: UUID


Row: TypeAlias = (
    BatchRow
    | RecordRow
    | OffsetPosition
    | TimestampOffset
    | AbortedTransaction
    | SnapshotEntry
    | EpochEntry
    | OffsetRow
    | TopicIdRow
    | MetaProperties
)


class FileDump:
    """One file: its rows are read as they are asked for."""

    def __init__(self, path: str, kind: str, rows: Callable[[FileDump], Iterator[Row]]) -> None:
        self.path = path
        self.kind = kind
        """log, index, timeindex, txnindex, snapshot, or the name of a checkpoint."""
        self.problems: list[str] = []
        """What is wrong with the file; complete once the rows are read."""
        self.rows = rows(self)


def dump_paths(
    paths: Iterable[str], *, records: bool = False, verify_indexes: bool = False
) -> Iterator[FileDump]:
    """Dump files, and all that is known in directories (and in partition directories below them).

    With ``records`` each batch is followed by its records; ``verify_indexes`` compares the indexes
    with the log files beside them.
    """
    for path in paths:
        for file in _files_of(PurePath(path)):
            dump = dump_file(str(file), records=records, verify_indexes=verify_indexes)
            if dump is not None:
                yield dump


def _files_of(path: PurePath) -> Iterator[PurePath]:
    if not is_directory(path):
        yield path
        return
    for child in sorted((*list_files(path), *list_directories(path))):
        if is_directory(child):
            yield from list_files(child)
        else:
            yield child


def dump_file(path: str, *, records: bool = False, verify_indexes: bool = False) -> FileDump | None:
    """Dump one file; None if it is none that belongs to a log directory."""
    name = PurePath(path).name
    parsed = parse_file_name(name)
    if parsed is not None:
        base_offset, suffix, _ = parsed
        kind = suffix[1:]
        readers: dict[str, Callable[[FileDump], Iterator[Row]]] = {
            LOG_SUFFIX: lambda dump: _batches(dump, records=records),
            INDEX_SUFFIX: lambda dump: _index(dump, base_offset, verify=verify_indexes),
            TIME_INDEX_SUFFIX: lambda dump: _time_index(dump, base_offset, verify=verify_indexes),
            TXN_INDEX_SUFFIX: _transactions,
            SNAPSHOT_SUFFIX: _snapshot,
        }
        return FileDump(path, kind, readers[suffix])
    reader = _CHECKPOINTS.get(name)
    return None if reader is None else FileDump(path, name, reader)


def _batches(dump: FileDump, *, records: bool) -> Iterator[Row]:
    file = open_for_reading(dump.path)
    end = 0
    try:
        for position, header in iter_file_headers(file, 0, file.size):
            batch = file.pread(header.size, position)
            valid = crc_is_valid(batch, 0, header.size)
            if not valid:
                dump.problems.append(f"the batch at position {position} has a wrong CRC")
            yield _batch_row(header, position, valid=valid)
            if records and valid:
                yield from _records(dump, header, batch, position)
            end = position + header.size
        if end != file.size:
            dump.problems.append(_describe_rest(file, end))
    finally:
        file.close()


def _describe_rest(file: File, position: int) -> str:
    rest = file.pread(4096, position)
    count = file.size - position
    if not any(rest):
        return f"{count} bytes from position {position} on are zero (preallocated)"
    return f"{count} bytes from position {position} on are not a record batch"


def _batch_row(header: BatchHeader, position: int, *, valid: bool) -> BatchRow:
    try:
        compression = Compression(header.compression).label
    except ValueError:
        compression = f"unknown ({header.compression})"
    kind = "LogAppendTime" if header.timestamp_type == LOG_APPEND_TIME else "CreateTime"
    return BatchRow(
        header.base_offset,
        header.last_offset,
        header.records_count,
        header.base_sequence,
        header.last_sequence,
        header.producer_id,
        header.producer_epoch,
        header.partition_leader_epoch,
        header.is_transactional,
        header.is_control,
        header.delete_horizon_ms,
        position,
        kind,
        header.max_timestamp,
        header.size,
        header.magic,
        compression,
        header.crc,
        valid,
    )


def _records(dump: FileDump, header: BatchHeader, batch: bytes, position: int) -> Iterator[Row]:
    try:
        records = read_records(batch, check_crc=False)
    except KafkaError as error:
        dump.problems.append(f"the records at position {position}: {error.message}")
        return
    for record in records:
        sequence = -1
        if header.base_sequence >= 0:
            sequence = header.base_sequence + record.offset - header.base_offset
        control = None
        if header.is_control:
            control = _control_name(record.key)
        yield RecordRow(
            record.offset,
            record.timestamp,
            sequence,
            record.key,
            record.value,
            tuple(record.headers),
            control,
        )


def _control_name(key: bytes | None) -> str:
    try:
        return read_control_type(key).name
    except KafkaError:
        return ControlType.UNKNOWN.name


def _entries(dump: FileDump, entry_size: int) -> bytes:
    data = DISK.read(dump.path)
    rest = len(data) % entry_size
    if rest:
        dump.problems.append(f"{rest} bytes at the end are no whole entry")
    whole = data[: len(data) - rest]
    used = len(whole.rstrip(b"\x00"))
    used += -used % entry_size
    if used < len(whole):
        dump.problems.append(f"{len(whole) - used} bytes at the end are zero (preallocated)")
    return whole[:used]


def _index(dump: FileDump, base_offset: int, *, verify: bool) -> Iterator[Row]:
    data = _entries(dump, offset_index.ENTRY_SIZE)
    entries = [
        OffsetPosition(base_offset + relative, position)
        for relative, position in offset_index.ENTRY.iter_unpack(data)
    ]
    if verify:
        dump.problems += check_index(dump.path, entries)
    yield from entries


def _time_index(dump: FileDump, base_offset: int, *, verify: bool) -> Iterator[Row]:
    data = _entries(dump, time_index.ENTRY_SIZE)
    entries = [
        TimestampOffset(timestamp, base_offset + relative)
        for timestamp, relative in time_index.ENTRY.iter_unpack(data)
    ]
    if verify:
        dump.problems += check_time_index(dump.path, entries)
    yield from entries


def _transactions(dump: FileDump) -> Iterator[Row]:
    data = _entries(dump, transaction_index.ENTRY_SIZE)
    for _, *fields in transaction_index.ENTRY.iter_unpack(data):
        yield AbortedTransaction(*fields)


def _snapshot(dump: FileDump) -> Iterator[Row]:
    try:
        yield from decode_snapshot(DISK.read(dump.path))
    except CorruptSnapshotError as error:
        dump.problems.append(str(error))


def _epochs(dump: FileDump) -> Iterator[Row]:
    try:
        yield from LeaderEpochs.decode(DISK.read(dump.path), dump.path).entries
    except CorruptCheckpointError as error:
        dump.problems.append(str(error))


def _offsets(dump: FileDump) -> Iterator[Row]:
    try:
        for (topic, partition), offset in read_offsets(DISK, dump.path).items():
            yield OffsetRow(topic, partition, offset)
    except CorruptCheckpointError as error:
        dump.problems.append(str(error))


def _topic_id(dump: FileDump) -> Iterator[Row]:
    try:
        yield TopicIdRow(read_partition_metadata(DISK, str(PurePath(dump.path).parent)))
    except CorruptCheckpointError as error:
        dump.problems.append(str(error))


def _meta_properties(dump: FileDump) -> Iterator[Row]:
    try:
        yield MetaProperties.decode(DISK.read(dump.path), dump.path)
    except CorruptCheckpointError as error:
        dump.problems.append(str(error))


_CHECKPOINTS: dict[str, Callable[[FileDump], Iterator[Row]]] = {
    LEADER_EPOCH_CHECKPOINT: _epochs,
    PARTITION_METADATA: _topic_id,
    RECOVERY_POINT_CHECKPOINT: _offsets,
    LOG_START_OFFSET_CHECKPOINT: _offsets,
    HIGH_WATERMARK_CHECKPOINT: _offsets,
    CLEANER_OFFSET_CHECKPOINT: _offsets,
    META_PROPERTIES: _meta_properties,
}

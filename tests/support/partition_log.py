"""Batches and logs for the tests of the log."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.config.values.topic import TopicConfig
from moldau.log import PartitionLog
from moldau.log.recovery.opening import load_log
from moldau.log.recovery.stats import RecoveryStats
from moldau.machine.disk import Disk
from moldau.model import TopicPartition
from moldau.records.batch import MAX_SEQUENCE, iter_headers
from moldau.records.builder import build_batch
from moldau.records.compression import Compression
from moldau.records.reader import read_records
from moldau.records.record import Record

DIRECTORY = "/data/t-0"
PARTITION = TopicPartition("t", 0)
NOW_MS = 1_700_000_000_000


class Observer:
    """Remembers what a log tells."""

    def __init__(self, log: PartitionLog) -> None:
        log.observe(self)
        self.rolled_to: list[int] = []
        self.removed: list[str] = []
        self.refused: list[str] = []
        self.flushes_due = 0

    def flush_due(self, topic_partition: TopicPartition) -> None:
        self.flushes_due += 1

    def rolled(self, topic_partition: TopicPartition, base_offset: int) -> None:
        self.rolled_to.append(base_offset)

    def segments_removed(self, topic_partition: TopicPartition, paths: list[str]) -> None:
        self.removed += paths

    def disk_refused(self, topic_partition: TopicPartition, doing: str, error: OSError) -> None:
        self.refused.append(doing)


def verified(log: PartitionLog, producer_id: int, epoch: int = 0) -> None:
    """The coordinator of its transactions knows that the partition takes part."""
    asked = log.producers.begin_verification(producer_id, epoch, MAX_SEQUENCE, starts_epoch=False)
    if asked is not None:
        asked.done = True


def make_batch(
    count: int = 1,
    *,
    size: int = 10,
    key: bytes | None = b"k",
    timestamps: Sequence[int] = (),
    compression: int = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = 0,
    transactional: bool = False,
    control: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> memoryview:
    """A batch as a producer would send it."""
    times = [*timestamps, *[NOW_MS] * (count - len(timestamps))]
    records = [Record(0, times[index], key, bytes([index % 256]) * size) for index in range(count)]
    return memoryview(
        build_batch(
            records,
            base_offset=base_offset,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch if producer_id >= 0 else -1,
            base_sequence=sequence if producer_id >= 0 else -1,
            transactional=transactional,
            control=control,
            leader_epoch=leader_epoch,
        )
    )


def open_log(
    disk: Disk,
    config: TopicConfig | None = None,
    *,
    directory: str = DIRECTORY,
    clean: bool = False,
    recovery_point: int | None = 0,
    log_start_offset: int = 0,
    stats: RecoveryStats | None = None,
) -> PartitionLog:
    return load_log(
        disk,
        directory,
        PARTITION,
        config or TopicConfig(),
        now_ms=NOW_MS,
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        stats=stats,
    )


def close_cleanly(log: PartitionLog) -> None:
    job = log.prepare_close()
    if job is not None:
        job.run()
        log.durability.complete_flush(job, NOW_MS)
    log.close()


def fill(log: PartitionLog, batches: int, *, count: int = 1, size: int = 50) -> None:
    for _ in range(batches):
        log.append_as_leader(make_batch(count, size=size), 0, NOW_MS)


def read_batches(
    log: PartitionLog, offset: int | None = None, *, max_bytes: int = 1 << 20
) -> bytes:
    """All whole batches from ``offset`` (the start) to the end, in fetches of ``max_bytes``."""
    parts = []
    next_offset = log.log_start_offset if offset is None else offset
    while (found := log.read(next_offset, max_bytes, log.log_end_offset)) is not None:
        data = found.read()
        end = 0
        for position, header in iter_headers(data):
            end = position + header.size
            assert header.next_offset > next_offset
            next_offset = header.next_offset
        assert end > 0, f"no batch at offset {next_offset}"
        parts.append(data[:end])
    return b"".join(parts)


def read_values(log: PartitionLog) -> list[bytes | None]:
    data = read_batches(log)
    return [
        record.value
        for position, _ in iter_headers(data)
        for record in read_records(data, position)
    ]

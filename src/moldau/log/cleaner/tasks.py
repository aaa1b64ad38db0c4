"""What the cleaner is told about a log: everything it needs besides the segment files."""

from __future__ import annotations

from moldau.config.values.broker import BrokerConfig
from moldau.log.cleaner.cleanable import Cleanable
from moldau.log.cleaner.messages import CleanTask, LastRecord, SourceSegment
from moldau.log.partition.log import PartitionLog
from moldau.log.segment.transaction_index import AbortedTransaction

_READ_BYTES_MIN = 4096


def make_task(cleanable: Cleanable, config: BrokerConfig, cleaners: int, now_ms: int) -> CleanTask:
    """The broker's buffers and its share of the disk are divided among the cleaners."""
    log = cleanable.log
    topic = log.config
    return CleanTask(
        partition=str(log.topic_partition),
        directory=log.directory,
        segments=[SourceSegment(part.base_offset, part.size) for part in cleanable.segments],
        first_dirty_offset=cleanable.first_dirty_offset,
        first_uncleanable_offset=cleanable.first_uncleanable_offset,
        now_ms=now_ms,
        delete_retention_ms=topic.delete_retention_ms,
        segment_bytes=topic.segment_bytes,
        segment_index_bytes=topic.segment_index_bytes,
        index_interval_bytes=topic.index_interval_bytes,
        aborted=_aborted(log, cleanable.first_uncleanable_offset),
        last_records=_last_records(log),
        dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size // cleaners,
        load_factor=min(max(config.log_cleaner_io_buffer_load_factor, 0.01), 1.0),
        read_bytes=max(config.log_cleaner_io_buffer_size // cleaners // 2, _READ_BYTES_MIN),
        max_bytes_per_second=max(config.log_cleaner_io_max_bytes_per_second / cleaners, 1.0),
    )


def _aborted(log: PartitionLog, upper: int) -> list[tuple[int, int, int, int]]:
    """Returns those with data before ``upper``; the marker of one may stand in any later
    segment.
    """
    aborted: list[AbortedTransaction] = []
    for segment in log.segments:
        if segment.txn_index.collect(log.segments[0].base_offset, upper, aborted):
            break
    return [(pid, first, last, stable) for pid, first, last, stable in aborted]


def _last_records(log: PartitionLog) -> dict[int, LastRecord]:
    return {
        entry.producer_id: LastRecord(
            entry.epoch, entry.batches[-1].last_offset if entry.batches else -1
        )
        for entry in log.producers.producers.values()
    }

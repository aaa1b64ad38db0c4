"""Whole logs, compacted: the indexes of the new segments, transactions, groups of segments."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest
from tests.support.partition_log import (
    DIRECTORY,
    NOW_MS,
    make_batch,
    open_log,
    read_batches,
    verified,
)

from moldau.config.values.broker import BrokerConfig
from moldau.config.values.topic import TopicConfig
from moldau.log import AppendOrigin, PartitionLog
from moldau.log.cleaner.cleanable import find_cleanable
from moldau.log.cleaner.compaction import Compaction
from moldau.log.cleaner.messages import GroupCleaned
from moldau.log.cleaner.swap import swap_in
from moldau.log.cleaner.tasks import make_task
from moldau.log.segment.segment import Segment
from moldau.records.batch import iter_headers
from moldau.records.builder import build_batch
from moldau.records.compression import Compression
from moldau.records.control import ControlType, build_end_txn_marker
from moldau.records.errors import CorruptRecordError
from moldau.records.reader import read_records
from moldau.records.record import Record
from moldau.testing.disk import MemoryDisk

CONFIG = TopicConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=1000, index_interval_bytes=100
)


def compact(
    disk: MemoryDisk, log: PartitionLog, checkpoint: int | None = None, now_ms: int = NOW_MS
) -> Compaction:
    """A cleaning from beginning to end, as the broker and its cleaner do it together."""
    cleanable = find_cleanable(log, checkpoint, log.log_end_offset, now_ms)
    compaction = Compaction(disk, make_task(cleanable, BrokerConfig({}), 1, now_ms))
    for group in compaction.run():
        if not isinstance(group, GroupCleaned):
            continue  # bytes that were read or written
        old = [one for one in log.segments if one.base_offset in group.replaces]
        new = Segment.with_config(
            disk, DIRECTORY, group.base_offset, CONFIG, created_ms=NOW_MS, size=group.size
        )
        log.closed_segments.begin_replacing(old)
        log.closed_segments.replace(old, new, swap_in(disk, DIRECTORY, group))
    return compaction


def append(log: PartitionLog, key: bytes, *, timestamp: int = NOW_MS, size: int = 50) -> None:
    log.append_as_leader(make_batch(key=key, size=size, timestamps=[timestamp]), 0, NOW_MS)


def test_indexes_are_exact(disk: MemoryDisk) -> None:
    log = open_log(disk, CONFIG)
    for number in range(120):
        # Times go up and down, and the largest of a segment is often of a record that goes.
        append(log, b"%d" % (number % 50), timestamp=NOW_MS - 10_000 + number * 37 % 1000)
    compact(disk, log)
    log.close()
    reopened = open_log(disk, CONFIG, clean=True)
    data = read_batches(reopened)
    records = [one for at, _ in iter_headers(data) for one in read_records(data, at)]
    assert len(records) < 80
    for one in records:
        slice_ = reopened.read(one.offset, 1, reopened.log_end_offset)
        assert slice_ is not None
        assert read_records(slice_.read())[0] == one
        where = reopened.offset_for_timestamp(one.timestamp)
        assert where is not None
        first = next(other for other in records if other.timestamp >= one.timestamp)
        assert (where.timestamp, where.offset) == (first.timestamp, first.offset)
    largest = max(records, key=lambda one: one.timestamp)
    found = reopened.max_timestamp_offset()
    assert found is not None
    assert (found.timestamp, found.offset) == (largest.timestamp, largest.offset)
    for segment in reopened.segments[:-1]:
        times = [header.max_timestamp for _, header in segment.headers()]
        assert segment.max_timestamp.timestamp == max(times, default=-1)


def test_small_neighbours_become_one_segment(disk: MemoryDisk) -> None:
    log = open_log(disk, CONFIG)
    for number in range(60):
        append(log, b"%d" % number)
    before = len(log.segments)
    assert compact(disk, log).end_offset == log.segments[-1].base_offset
    assert len(log.segments) == before  # all of it was kept: nothing fits together
    end = log.segments[-1].base_offset
    for number in range(60):
        append(log, b"%d" % number)
    compact(disk, log, end)
    count = len(log.segments)
    compact(disk, log, 0)
    assert len(log.segments) < count
    assert all(segment.size <= CONFIG.segment_bytes for segment in log.segments)
    data = read_batches(log)
    assert {read_records(data, at)[0].key for at, _ in iter_headers(data)} == {
        b"%d" % number for number in range(60)
    }


def end_transaction(log: PartitionLog, producer_id: int, kind: ControlType) -> None:
    marker = build_end_txn_marker(
        kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS
    )
    log.append_as_leader(memoryview(marker), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)


def test_an_aborted_transaction_stays_in_the_index_until_its_marker_goes(
    disk: MemoryDisk,
) -> None:
    log = open_log(disk, replace(CONFIG, delete_retention_ms=100))
    batch = make_batch(key=b"a", producer_id=9, transactional=True)
    verified(log, 9)
    log.append_as_leader(batch, 0, NOW_MS)
    log.roll(NOW_MS)
    end_transaction(log, 9, ControlType.ABORT)
    # Its next transaction is open, so that the data of the first is not the last of its producer.
    verified(log, 9)
    log.append_as_leader(
        make_batch(key=b"b", producer_id=9, sequence=1, transactional=True), 0, NOW_MS
    )
    end_transaction(log, 9, ControlType.COMMIT)
    log.roll(NOW_MS)
    append(log, b"c")

    compact(disk, log)
    assert log.aborted_transactions(0, 10) == [(9, 0)]
    assert [header.base_offset for _, header in iter_headers(read_batches(log))] == [1, 2, 3, 4]
    compact(disk, log, 0, NOW_MS + 1)
    headers = [header for _, header in iter_headers(read_batches(log))]
    assert [header.has_delete_horizon for header in headers] == [True, False, False, False]
    assert log.aborted_transactions(0, 10) == []
    compact(disk, log, 0, NOW_MS + 101)
    assert [header.base_offset for _, header in iter_headers(read_batches(log))] == [2, 3, 4]


def test_an_aborted_value_does_not_replace_a_committed_one(disk: MemoryDisk) -> None:
    log = open_log(disk, CONFIG)
    append(log, b"a")
    verified(log, 9)
    log.append_as_leader(make_batch(key=b"a", producer_id=9, transactional=True), 0, NOW_MS)
    end_transaction(log, 9, ControlType.ABORT)
    log.roll(NOW_MS)
    append(log, b"b")
    compact(disk, log)
    data = read_batches(log)
    kept = [record.offset for at, _ in iter_headers(data) for record in read_records(data, at)]
    assert kept == [0, 2, 3]  # the empty batch at 1 keeps the producer's sequence


def test_damage_is_not_copied(disk: MemoryDisk) -> None:
    log = open_log(disk, CONFIG)
    for number in range(60):
        append(log, b"%d" % number)
    path = f"{DIRECTORY}/{0:020d}.log"
    data = bytearray(disk.read(path))
    data[-3] ^= 1
    disk.write(path, bytes(data))
    with pytest.raises(CorruptRecordError, match="is damaged"):
        compact(disk, log)
    assert disk.read(path) == data


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_batches_that_hold_far_more_than_they_take_are_compacted(
    disk: MemoryDisk, codec: Compression
) -> None:
    """As large as a produced batch may be; no more than a few times that is in memory."""
    config = replace(CONFIG, segment_bytes=10_000_000)
    log = open_log(disk, config)
    size = 30 * 1024 * 1024
    many = 50_000
    for value in (b"a" * size, b"b" * size):
        batch = build_batch([Record(0, NOW_MS, b"key", value)], compression=codec)
        log.append_as_leader(memoryview(batch), 0, NOW_MS)
    tiny = [Record(0, NOW_MS, b"%d" % (number % 10), b"") for number in range(many)]
    log.append_as_leader(memoryview(build_batch(tiny, compression=codec)), 0, NOW_MS)
    log.roll(NOW_MS)
    tracemalloc.start()
    try:
        compact(disk, log)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * size
    data = read_batches(log)
    records = [one for at, _ in iter_headers(data) for one in read_records(data, at)]
    assert [record.offset for record in records] == [1, *range(2 + many - 10, 2 + many)]
    assert (records[0].value or b"")[:1] == b"b"

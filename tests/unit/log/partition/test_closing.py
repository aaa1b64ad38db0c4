"""What a clean stop writes: as little as the next start needs, and nothing for logs left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.partition_log import (
    DIRECTORY,
    NOW_MS,
    close_cleanly,
    fill,
    make_batch,
    open_log,
    read_values,
)

from moldau.config.values.topic import TopicConfig
from moldau.log import PartitionLog
from moldau.log.partition.flush_job import FlushJob
from moldau.machine.real.disk import OsDisk
from moldau.testing.disk import MemoryDisk

EPOCHS = f"{DIRECTORY}/leader-epoch-checkpoint"


def snapshots(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.listdir(DIRECTORY) if name.endswith(".snapshot")]


def reopen(log: PartitionLog, disk: MemoryDisk) -> PartitionLog:
    close_cleanly(log)
    return open_log(disk, clean=True)


def test_a_log_that_nobody_touched_costs_nothing(disk: MemoryDisk) -> None:
    log = open_log(disk)
    fill(log, 5)
    log = reopen(log, disk)
    before = disk.operations.copy()
    assert log.prepare_close() is None
    assert disk.operations == before


def test_a_small_log_without_producers_needs_no_snapshot(disk: MemoryDisk) -> None:
    log = open_log(disk)
    fill(log, 5)
    log = reopen(log, disk)
    assert not snapshots(disk)
    assert (log.log_end_offset, log.producers.end_offset) == (5, 5)
    assert not log.producers.producers


def test_with_a_producer_there_is_a_snapshot(disk: MemoryDisk) -> None:
    log = open_log(disk)
    for sequence in range(3):
        log.append_as_leader(make_batch(producer_id=7, sequence=sequence), 0, NOW_MS)
    log = reopen(log, disk)
    assert snapshots(disk) == ["00000000000000000003.snapshot"]
    assert log.producers.producers[7].last_sequence == 2
    log.append_as_leader(make_batch(producer_id=7, sequence=3), 0, NOW_MS)
    assert log.log_end_offset == 4


def test_a_log_that_is_dear_to_read_has_a_snapshot_anyway(disk: MemoryDisk) -> None:
    log = open_log(disk)
    fill(log, 20, size=1000)
    log = reopen(log, disk)
    assert snapshots(disk) == ["00000000000000000020.snapshot"]
    assert log.producers.end_offset == 20


def test_what_was_appended_after_a_clean_start_is_indexed_at_the_next_stop(
    disk: MemoryDisk,
) -> None:
    log = open_log(disk)
    fill(log, 5)
    log = reopen(log, disk)
    log.segments[0].largest_timestamp()
    log.append_as_leader(make_batch(timestamps=[NOW_MS + 50]), 0, NOW_MS)
    log = reopen(log, disk)
    assert log.segments[0].max_timestamp == (NOW_MS + 50, 5)
    assert len(read_values(log)) == 6


def epochs_job(disk: OsDisk | MemoryDisk, data: bytes) -> FlushJob:
    return FlushJob(disk, 0, 0, files=[], paths=[], epochs=(EPOCHS, data), directories=[])


@pytest.mark.parametrize("count", [1, 5, 100])
def test_epochs_are_written_where_they_are_unless_they_are_many(
    disk: MemoryDisk, count: int
) -> None:
    log = open_log(disk)
    for epoch in range(count):
        log.append_as_leader(make_batch(), epoch, NOW_MS)
    data = log.leader_epochs.encode()
    disk.write(EPOCHS, b"0\n0\n")
    before = disk.operations["rename"]
    epochs_job(disk, data).run_before_filesystem_sync()
    assert disk.read(EPOCHS) == data
    assert disk.operations["rename"] - before == (1 if len(data) > 512 else 0)
    assert not disk.exists(EPOCHS + ".tmp")


@pytest.mark.parametrize(
    "torn", [b"", b"0\n", b"0\n2\n0 0\n", b"0\n2\n0 0\n1 1", b"0\n2\n0 0\n1 3\n\0"]
)
def test_torn_epochs_are_read_from_the_log_again(disk: MemoryDisk, torn: bytes) -> None:
    config = TopicConfig(segment_bytes=100)
    log = open_log(disk, config)
    for epoch in (0, 0, 0, 1, 1):
        log.append_as_leader(make_batch(), epoch, NOW_MS)
    assert len(log.segments) == 5
    log.durability.flush(NOW_MS)
    log.close()
    disk.write(EPOCHS, torn)
    again = open_log(disk, config, recovery_point=5)
    assert [tuple(entry) for entry in again.leader_epochs.entries] == [(0, 0), (1, 3)]


def test_a_shorter_file_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    disk, path = OsDisk(), tmp_path / "file"
    for content in (b"long content", b"short", b"", b"longer than that"):
        disk.write(str(path), content)
        assert path.read_bytes() == content
    disk.write_atomic(str(path), b"x")
    assert path.read_bytes() == b"x"

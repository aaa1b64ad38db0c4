"""Opening a log after a clean stop and after a crash."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from tests.support.partition_log import (
    DIRECTORY,
    NOW_MS,
    close_cleanly,
    fill,
    make_batch,
    open_log,
    read_batches,
    verified,
)

from moldau.config.values.topic import TopicConfig
from moldau.errors import KafkaError
from moldau.log import AppendOrigin, PartitionLog
from moldau.log.files.producer_snapshot import SnapshotEntry, encode_snapshot
from moldau.log.recovery.stats import RecoveryStats
from moldau.machine.real.disk import OsDisk
from moldau.records.batch import read_header
from moldau.records.control import ControlType, build_end_txn_marker
from moldau.testing.disk import MemoryDisk

CONFIG = TopicConfig(segment_bytes=1000, index_interval_bytes=100)
COMPACTED = TopicConfig(
    segment_bytes=1000, index_interval_bytes=100, cleanup_policy=frozenset({"compact"})
)


def segment_path(base_offset: int, suffix: str) -> str:
    return f"{DIRECTORY}/{base_offset:020d}.{suffix}"


def filled(disk: MemoryDisk, batches: int = 40) -> PartitionLog:
    log = open_log(disk, CONFIG)
    for number in range(batches):
        log.append_as_leader(
            make_batch(2, size=40, producer_id=3, sequence=number * 2), number // 10, NOW_MS
        )
    return log


def damage(disk: MemoryDisk, path: str, position: int) -> None:
    data = bytearray(disk.read(path))
    data[position] ^= 0xFF
    disk.write(path, bytes(data))


def test_after_a_clean_stop_nothing_is_read_but_the_end(disk: MemoryDisk) -> None:
    log = filled(disk)
    before = read_batches(log)
    close_cleanly(log)
    disk.bytes_read.clear()
    stats = RecoveryStats()
    log = open_log(disk, CONFIG, clean=True, stats=stats)
    read = sum(count for path, count in disk.bytes_read.items() if path.endswith(".log"))
    assert read < 400
    assert stats.bytes_scanned == 0
    assert (log.log_end_offset, log.recovery_point) == (80, 80)
    assert [producer.last_sequence for producer in log.active_producers()] == [79]
    assert log.leader_epochs.entries == [(0, 0), (1, 20), (2, 40), (3, 60)]
    assert read_batches(log) == before


def test_after_a_crash_only_what_lies_past_the_recovery_point_is_read(disk: MemoryDisk) -> None:
    log = filled(disk)
    log.durability.flush(NOW_MS)
    flushed = log.size
    fill(log, 8)
    before = read_batches(log)
    log.close()
    disk.bytes_read.clear()
    stats = RecoveryStats()
    log = open_log(disk, CONFIG, recovery_point=80, stats=stats)
    assert log.log_end_offset == 88
    assert log.recovery_point == 80
    # At most one index interval and one batch before the recovery point.
    assert stats.bytes_scanned <= log.size - flushed + 400
    first = log.segments[0].path(".log")
    assert disk.bytes_read[first] == 0
    assert read_batches(log) == before


def test_a_segment_closed_after_the_last_flush_gets_its_indexes_again(disk: MemoryDisk) -> None:
    """Flushed, then rolled: the indexes were completed by the roll, and not synced since."""
    log = open_log(disk, CONFIG)
    for number in range(3):
        log.append_as_leader(make_batch(timestamps=(NOW_MS + number,)), 0, NOW_MS)
    log.durability.flush(NOW_MS)
    log.roll(NOW_MS)
    assert log.recovery_point == log.segments[1].base_offset
    log.close()
    for suffix in ("index", "timeindex"):
        disk.write(segment_path(0, suffix), b"")
    log = open_log(disk, CONFIG, recovery_point=3)
    assert log.offset_for_timestamp(NOW_MS + 2) == (NOW_MS + 2, 2, 0)


@pytest.mark.parametrize("where", ["crc", "header", "cut", "zeros"])
def test_a_bad_tail_is_cut_at_the_last_good_batch(disk: MemoryDisk, where: str) -> None:
    log = filled(disk)
    before = read_batches(log)
    active = log.segments[-1]
    path, size = active.path(".log"), active.size
    last = len(before) - len(make_batch(2, size=40, producer_id=3))
    log.close()
    if where == "crc":
        damage(disk, path, size - 1)
    elif where == "header":
        damage(disk, path, size - (len(before) - last) + 16)
    elif where == "cut":
        disk.truncate(path, size - 5)
    else:
        disk.write(path, disk.read(path)[: size - (len(before) - last)] + bytes(5000))
    stats = RecoveryStats()
    log = open_log(disk, CONFIG, stats=stats)
    assert read_batches(log) == before[:last]
    assert log.log_end_offset == 78
    assert stats.bytes_truncated > 0
    assert disk.size(path) == active.size - (len(before) - last)
    assert [producer.last_sequence for producer in log.active_producers()] == [77]
    info = log.append_as_leader(make_batch(producer_id=3, sequence=78), 9, NOW_MS)
    assert info.first_offset == 78


def test_damage_in_the_middle_ends_the_log_there(disk: MemoryDisk) -> None:
    log = filled(disk)
    second, third = log.segments[1], log.segments[2]
    keep = second.base_offset + 2
    log.close()
    size = len(make_batch(2, size=40, producer_id=3))
    damage(disk, second.path(".log"), size + 70)
    stats = RecoveryStats()
    log = open_log(disk, CONFIG, stats=stats)
    assert log.log_end_offset == keep
    assert stats.segments_removed > 0
    assert not disk.exists(third.path(".log"))
    assert not disk.exists(third.path(".index"))
    assert not disk.exists(third.path(".snapshot"))
    assert log.leader_epochs.entries[-1][1] < keep


def test_damage_before_the_recovery_point_is_not_looked_for(disk: MemoryDisk) -> None:
    log = filled(disk)
    log.durability.flush(NOW_MS)
    log.close()
    damage(disk, segment_path(0, "log"), 200)
    assert open_log(disk, CONFIG, recovery_point=80).log_end_offset == 80


def test_a_gap_is_the_end_unless_the_topic_is_compacted(disk: MemoryDisk) -> None:
    for config, expected in ((CONFIG, 2), (COMPACTED, 12)):
        log = open_log(disk, COMPACTED)
        log.append_as_follower(make_batch(2), NOW_MS)
        log.append_as_follower(make_batch(2, base_offset=10), NOW_MS)
        log.close()
        log = open_log(disk, config)
        assert log.log_end_offset == expected
        log.truncate_fully_and_start_at(0, NOW_MS)
        log.close()


def test_a_flush_after_a_kill_makes_what_was_there_before_durable(disk: MemoryDisk) -> None:
    """The process was killed before it had synced anything, not even the directory's name."""
    disk.sync_dir("/")
    log = open_log(disk, CONFIG)
    log.append_as_leader(make_batch(3), 0, NOW_MS)
    stored = read_batches(log)
    log.close()
    log = open_log(disk, CONFIG)
    log.durability.flush(NOW_MS)
    log = open_log(disk.power_cut(), CONFIG, recovery_point=log.recovery_point)
    assert log.log_end_offset == 3
    assert read_batches(log) == stored


@pytest.mark.parametrize("seed", [*range(5), 130, 379])  # the last two lost a tail
def test_a_power_cut_makes_no_gap_in_a_compacted_log_that_is_flushed(seed: int) -> None:
    config = replace(COMPACTED, flush_messages=1)
    disk = MemoryDisk(random.Random(seed))
    disk.makedirs(DIRECTORY)
    for parent in ("/", str(PurePosixPath(DIRECTORY).parent)):
        disk.sync_dir(parent)
    log = open_log(disk, config)
    for number in range(30):
        batch = make_batch(2, size=40, producer_id=3, sequence=number * 2)
        log.append_as_leader(batch, 0, NOW_MS)
        if number == 0:
            log.durability.flush(NOW_MS)  # the rest is under way
    assert len(log.segments) > 2
    log = open_log(disk.power_cut(), config, recovery_point=0)
    offsets = [header.base_offset for s in log.segments for _, header in s.headers()]
    assert offsets == list(range(0, 2 * len(offsets), 2))


def test_gaps_are_kept_where_the_recovery_point_is_lost(disk: MemoryDisk) -> None:
    """A log that was compacted once, under another policy now: nothing says where it has gaps."""
    disk.sync_dir("/")
    log = open_log(disk, COMPACTED)
    for base_offset in (0, 10, 11, 30):
        log.append_as_follower(make_batch(base_offset=base_offset, size=300), NOW_MS)
    stored = read_batches(log)
    assert len(log.segments) > 1
    log.close()
    log = open_log(disk, CONFIG, recovery_point=None)
    assert (log.log_end_offset, log.recovery_point) == (31, 31)
    log.close()
    disk = disk.power_cut()
    log = open_log(disk, CONFIG, recovery_point=log.recovery_point)
    assert read_batches(log) == stored
    log.append_as_leader(make_batch(), 0, NOW_MS)
    log.append_as_follower(make_batch(base_offset=40), NOW_MS)
    log.close()
    log = open_log(disk, CONFIG, recovery_point=31)
    assert log.log_end_offset == 32, "a gap past what is known to be durable is lost data"


def test_a_missing_segment_ends_the_log(disk: MemoryDisk) -> None:
    log = filled(disk)
    second = log.segments[1]
    log.close()
    disk.remove(second.path(".log"))
    log = open_log(disk, CONFIG)
    assert log.log_end_offset == second.base_offset
    assert not disk.exists(second.path(".index"))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize(
    "harm",
    [
        lambda disk, path: disk.remove(path),
        lambda disk, path: disk.write(path, disk.read(path)[:-1]),
        lambda disk, path: disk.write(path, disk.read(path) + bytes(24_000)),
        lambda disk, path: disk.write(path, b"\xff" * 24),
    ],
    ids=["missing", "odd size", "not trimmed", "garbage"],
)
def test_a_lost_or_damaged_index_is_rebuilt(
    disk: MemoryDisk, clean: bool, suffix: str, harm: Callable[[MemoryDisk, str], None]
) -> None:
    log = open_log(disk, CONFIG)
    for number in range(40):
        log.append_as_leader(make_batch(timestamps=(NOW_MS + number,), size=40), 0, NOW_MS)
    close_cleanly(log)
    wanted = [(s.offset_index.entries(), s.time_index.entries()) for s in log.segments]
    log.close()
    paths = [segment.path("." + suffix) for segment in (log.segments[0], log.segments[-1])]
    for path in paths:
        harm(disk, path)
    log = open_log(disk, CONFIG, clean=clean, recovery_point=40)
    for offset in range(40):
        found = log.read(offset, 1, 40)
        assert found is not None
        assert read_header(found.read()).base_offset == offset
        assert log.offset_for_timestamp(NOW_MS + offset) == (NOW_MS + offset, offset, 0)
    close_cleanly(log)
    log = open_log(disk, CONFIG, clean=True)
    assert [(s.offset_index.entries(), s.time_index.entries()) for s in log.segments] == wanted


def test_the_index_of_a_killed_kafka_is_accepted(tmp_path: Path) -> None:
    """The active segment's indexes are ten megabytes of mostly zeros, the log is preallocated."""
    disk, directory = OsDisk(), str(tmp_path)
    log = open_log(disk, CONFIG, directory=directory)
    fill(log, 30)
    wanted = read_batches(log)
    close_cleanly(log)
    active = log.segments[-1]
    for suffix, size in ((".index", 10_485_760), (".timeindex", 10_485_756), (".log", 1000)):
        disk.truncate(active.path(suffix), size)
    log = open_log(disk, CONFIG, directory=directory, recovery_point=20)
    assert read_batches(log) == wanted
    close_cleanly(log)
    assert disk.size(active.path(".index")) < 1000
    assert disk.size(active.path(".log")) == active.size


def test_producers_come_back_without_any_snapshot(disk: MemoryDisk) -> None:
    log = filled(disk)
    close_cleanly(log)
    for name in disk.listdir(DIRECTORY):
        if name.endswith(".snapshot"):
            disk.write(f"{DIRECTORY}/{name}", b"rubbish")
    log = open_log(disk, CONFIG, clean=True)
    again = make_batch(2, size=40, producer_id=3, sequence=70)
    info = log.append_as_leader(again, 9, NOW_MS)
    assert info.duplicate
    assert info.first_offset == 70


def test_epochs_come_back_from_the_log(disk: MemoryDisk) -> None:
    log = filled(disk)
    wanted = log.leader_epochs.entries
    log.durability.flush(NOW_MS)
    log.close()
    for content in (b"0\n9\n", b"\xff\xff\xff", b""):
        disk.write(f"{DIRECTORY}/leader-epoch-checkpoint", content)
        log = open_log(disk, CONFIG, recovery_point=80)
        assert log.leader_epochs.entries == wanted
        log.close()


def test_aborted_transactions_are_indexed_again(disk: MemoryDisk) -> None:
    log = open_log(disk, CONFIG)
    for number in range(20):
        verified(log, 4)
        log.append_as_leader(
            make_batch(producer_id=4, sequence=number, transactional=True), 0, NOW_MS
        )
        marker = build_end_txn_marker(
            ControlType.ABORT if number % 2 else ControlType.COMMIT,
            producer_id=4,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=NOW_MS,
        )
        log.append_as_leader(memoryview(marker), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    wanted = log.aborted_transactions(0, 100)
    assert len(wanted) == 10
    first = log.segments[0].path(".txnindex")
    log.close()
    log = open_log(disk, CONFIG)
    assert log.aborted_transactions(0, 100) == wanted
    close_cleanly(log)
    for clean in (True, False):
        disk.write(first, b"rubbish")
        log = open_log(disk, CONFIG, clean=clean, recovery_point=40)
        assert log.aborted_transactions(0, 100) == wanted
        log.close()


def test_flushed_aborts_are_not_indexed_twice(disk: MemoryDisk) -> None:
    log = open_log(disk, CONFIG)
    verified(log, 4)
    log.append_as_leader(make_batch(producer_id=4, transactional=True), 0, NOW_MS)
    marker = build_end_txn_marker(
        ControlType.ABORT,
        producer_id=4,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=NOW_MS,
    )
    log.append_as_leader(memoryview(marker), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.durability.flush(NOW_MS)
    log.close()
    log = open_log(disk, CONFIG, recovery_point=2)
    assert log.aborted_transactions(0, 100) == [(4, 0)]


def test_snapshots_and_epochs_past_the_recovery_point_are_not_believed(disk: MemoryDisk) -> None:
    log = filled(disk)
    second = log.segments[1].base_offset
    wanted = log.leader_epochs.entries
    true_snapshot = disk.read(segment_path(second, "snapshot"))
    log.durability.flush(NOW_MS)
    log.close()
    wrong = encode_snapshot([SnapshotEntry(99, 0, 5, 5, 0, NOW_MS, -1, -1)])
    disk.write(segment_path(second, "snapshot"), wrong)
    disk.write(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n2\n0 0\n7 3\n")
    log = open_log(disk, CONFIG, recovery_point=1)
    assert [producer.producer_id for producer in log.active_producers()] == [3]
    assert log.leader_epochs.entries == wanted
    assert disk.read(segment_path(second, "snapshot")) == true_snapshot


def test_indexes_rebuilt_by_recovery_are_synced_by_a_clean_close() -> None:
    for seed in range(20):
        disk = MemoryDisk(random.Random(seed))
        disk.makedirs(DIRECTORY)
        disk.sync_dir("/")
        disk.sync_dir("/data")
        log = open_log(disk, CONFIG)
        for number in range(8):
            log.append_as_leader(make_batch(timestamps=(NOW_MS + number,)), 0, NOW_MS)
        close_cleanly(log)
        # Recovery cuts the indexes back, although there is nothing to flush.
        close_cleanly(open_log(disk, CONFIG, recovery_point=8))
        log = open_log(disk.power_cut(), CONFIG, clean=True)
        assert log.offset_for_timestamp(NOW_MS + 7) == (NOW_MS + 7, 7, 0)


def test_a_log_that_ends_before_its_start_begins_again_there(disk: MemoryDisk) -> None:
    log = filled(disk)
    log.close()
    log = open_log(disk, CONFIG, log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (500, 500, 0)
    assert log.append_as_leader(make_batch(), 0, NOW_MS).first_offset == 500


def test_the_start_offset_is_kept(disk: MemoryDisk) -> None:
    log = filled(disk)
    close_cleanly(log)
    log = open_log(disk, CONFIG, clean=True, log_start_offset=5)
    assert log.log_start_offset == 5
    assert log.leader_epochs.entries[0] == (0, 5)


def test_a_torn_log_is_checked_even_if_it_claims_to_be_clean(disk: MemoryDisk) -> None:
    log = filled(disk)
    close_cleanly(log)
    active = log.segments[-1]
    disk.truncate(active.path(".log"), active.size - 3)
    log = open_log(disk, CONFIG, clean=True, recovery_point=70)
    assert log.log_end_offset == 78


def test_old_message_formats_are_refused_not_cut(disk: MemoryDisk) -> None:
    body = struct.pack(">Ibbqii", 1234, 1, 0, NOW_MS, -1, 60) + bytes(60)
    content = struct.pack(">qi", 0, len(body)) + body
    path = segment_path(0, "log")
    disk.write(path, content)
    for clean in (True, False):
        with pytest.raises(KafkaError, match="message format v1"):
            open_log(disk, CONFIG, clean=clean)
        assert disk.read(path) == content


# What interrupted work leaves --------------------------------------------------------------------


def test_files_marked_for_deletion_are_removed(disk: MemoryDisk) -> None:
    filled(disk).close()
    disk.write(segment_path(0, "log.deleted"), b"x")
    disk.write(segment_path(7, "index.cleaned"), b"x")
    open_log(disk, CONFIG)
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith(("deleted", "cleaned"))]


def test_a_finished_swap_replaces_its_segments(disk: MemoryDisk) -> None:
    log = open_log(disk, COMPACTED)
    fill(log, 30)
    close_cleanly(log)
    bases = [segment.base_offset for segment in log.segments]
    # The cleaner merged the first two segments into one that keeps only the last batch of them.
    merged = make_batch(base_offset=bases[2] - 1)
    disk.write(segment_path(0, "log.swap"), bytes(merged))
    disk.write(segment_path(0, "index.swap"), b"")
    disk.write(segment_path(0, "timeindex.swap"), b"")
    log = open_log(disk, COMPACTED, clean=True)
    assert [segment.base_offset for segment in log.segments] == [0, *bases[2:]]
    found = log.read(0, 1, log.log_end_offset)
    assert found is not None
    assert found.read() == bytes(merged)


def test_an_unfinished_swap_is_undone(disk: MemoryDisk) -> None:
    log = open_log(disk, COMPACTED)
    fill(log, 30)
    wanted = read_batches(log)
    close_cleanly(log)
    disk.write(segment_path(0, "log.cleaned"), b"half")
    disk.write(segment_path(5, "log.swap"), b"part of it")
    log = open_log(disk, COMPACTED, clean=True)
    assert read_batches(log) == wanted


def test_an_index_without_a_segment_is_removed(disk: MemoryDisk) -> None:
    filled(disk).close()
    disk.write(segment_path(999, "index"), b"")
    open_log(disk, CONFIG)
    assert not disk.exists(segment_path(999, "index"))


def test_strange_files_are_left_alone(disk: MemoryDisk) -> None:
    disk.write(f"{DIRECTORY}/notes.txt", b"mine")
    log = open_log(disk, CONFIG)
    fill(log, 1)
    close_cleanly(log)
    assert open_log(disk, CONFIG, clean=True).log_end_offset == 1
    assert disk.read(f"{DIRECTORY}/notes.txt") == b"mine"

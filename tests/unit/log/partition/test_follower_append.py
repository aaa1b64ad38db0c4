"""What a follower takes of an answer: many batches at once, of any segment and epoch."""

from __future__ import annotations

import pytest
from tests.support.partition_log import NOW_MS, close_cleanly, make_batch, open_log, read_batches

from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.log import PartitionLog
from moldau.log.errors import UnexpectedOffsetError
from moldau.testing.disk import MemoryDisk


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.makedirs("/data/t-0")
    return disk


def batches(count: int, *, start: int = 0, size: int = 50, epoch: int = 0) -> list[memoryview]:
    """Batches of two records each, a millisecond apart."""
    return [
        make_batch(
            2,
            base_offset=start + 2 * number,
            size=size,
            leader_epoch=epoch,
            timestamps=[NOW_MS + number, NOW_MS + number],
        )
        for number in range(count)
    ]


def joined(parts: list[memoryview]) -> memoryview:
    return memoryview(bytearray(b"".join(parts)))


def entries(log: PartitionLog) -> list[tuple[int, int]]:
    return [
        (entry.offset, entry.position)
        for segment in log.segments
        for entry in segment.offset_index.entries()
    ]


def test_many_batches_are_indexed_as_if_they_had_come_one_by_one(disk: MemoryDisk) -> None:
    config = TopicConfig(index_interval_bytes=200)
    disk.makedirs("/data/u-0")
    together, alone = open_log(disk, config), open_log(disk, config, directory="/data/u-0")
    parts = batches(40)
    together.append_as_follower(joined(parts), NOW_MS, 0)
    for part in parts:
        alone.append_as_follower(part, NOW_MS, 0)
    assert entries(together) == entries(alone)
    assert len(entries(together)) > 10
    for log in (together, alone):
        for number in range(40):
            found = log.offset_for_timestamp(NOW_MS + number)
            assert found is not None
            assert found.offset == 2 * number
    recovered = open_log(disk, config)
    assert entries(recovered) == entries(alone)
    assert read_batches(recovered) == b"".join(parts)


def test_what_came_in_several_segments_fits_into_smaller_ones(disk: MemoryDisk) -> None:
    config = TopicConfig(segment_bytes=1000)
    log = open_log(disk, config)
    parts = [*batches(30), make_batch(1, base_offset=60, size=3000, leader_epoch=0)]
    info = log.append_as_follower(joined(parts), NOW_MS, 0)
    assert (info.first_offset, info.last_offset, info.size) == (0, 60, len(joined(parts)))
    assert all(segment.size <= 1000 for segment in log.segments[:-1])
    assert len(log.segments[-1].headers()) == 1
    assert read_batches(log) == b"".join(parts)
    close_cleanly(log)
    assert read_batches(open_log(disk, config, clean=True)) == b"".join(parts)


@pytest.mark.parametrize("fault", ["crc", "offset", "epoch", "garbage"])
def test_what_comes_before_a_bad_batch_is_taken(disk: MemoryDisk, fault: str) -> None:
    log = open_log(disk)
    parts = batches(3, epoch=4)
    bad = make_batch(base_offset=6, leader_epoch=4)
    if fault == "crc":
        bad[-1] ^= 1
    elif fault == "offset":
        bad = make_batch(base_offset=5, leader_epoch=4)
    elif fault == "epoch":
        bad = make_batch(base_offset=6, leader_epoch=3)
    else:
        bad = memoryview(bytearray(b"\x7f" * 100))
    assert log.append_as_follower(joined([*parts, bad]), NOW_MS, 4).last_offset == 5
    assert log.log_end_offset == 6
    with pytest.raises(KafkaError) as error:
        log.append_as_follower(bad, NOW_MS, 4)
    if fault == "offset":
        assert isinstance(error.value, UnexpectedOffsetError)
        assert (error.value.first_offset, error.value.last_offset) == (5, 5)
    else:
        assert error.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 6


def test_nothing_of_a_later_epoch_is_taken_from_an_older_leader(disk: MemoryDisk) -> None:
    log = open_log(disk)
    parts = [*batches(2, epoch=4), *batches(2, start=4, epoch=5)]
    assert log.append_as_follower(joined(parts), NOW_MS, 4).last_offset == 3
    assert log.append_as_follower(joined(parts[2:]), NOW_MS, 4).size == 0
    assert log.append_as_follower(joined(parts[2:]), NOW_MS, 5).last_offset == 7
    assert log.leader_epochs.entries == [(4, 0), (5, 4)]


def test_an_epoch_without_records_goes_with_a_truncation_that_cuts_nothing(
    disk: MemoryDisk,
) -> None:
    """Who was elected and wrote nothing would be told again and again where to cut."""
    log = open_log(disk)
    log.append_as_follower(joined(batches(5, epoch=1)), NOW_MS, 1)
    log.assign_epoch_start_offset(2, 10)
    assert log.leader_epochs.latest_epoch == 2
    assert not log.truncate_to(10, NOW_MS)
    assert log.leader_epochs.entries == [(1, 0)]


def test_a_power_cut_brings_nothing_back_of_a_log_that_began_anew(disk: MemoryDisk) -> None:
    for seed in range(20):
        disk = MemoryDisk()
        disk.rng.seed(seed)
        disk.makedirs("/data/t-0")
        disk.sync_dir("/")
        disk.sync_dir("/data")
        log = open_log(disk, TopicConfig(segment_bytes=500))
        log.append_as_follower(joined(batches(20)), NOW_MS, 0)
        log.durability.flush(NOW_MS)
        log.truncate_fully_and_start_at(100, NOW_MS)
        log.durability.flush(NOW_MS)
        log.append_as_follower(joined(batches(3, start=100, epoch=2)), NOW_MS, 2)
        log = open_log(disk.power_cut(), TopicConfig(segment_bytes=500), recovery_point=100)
        assert log.log_start_offset == 100
        assert all(entry.epoch == 2 for entry in log.leader_epochs.entries)

"""Which part of a log may be cleaned, and which log is cleaned first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.partition_log import NOW_MS, make_batch, open_log, verified

from moldau.config.values.topic import TopicConfig
from moldau.log import PartitionLog
from moldau.log.cleaner.cleanable import Cleanable, dirtiest, find_cleanable
from moldau.testing.disk import MemoryDisk

CONFIG = TopicConfig(cleanup_policy=frozenset({"compact"}))
HOUR_MS = 3_600_000
FIRST_MS = NOW_MS - 10 * HOUR_MS


@pytest.fixture
def log(disk: MemoryDisk) -> PartitionLog:
    """Four closed segments of ten records, an hour apart, and an active one."""
    log = open_log(disk, CONFIG)
    for hour in range(5):
        for _ in range(10):
            batch = make_batch(timestamps=[FIRST_MS + hour * HOUR_MS])
            log.append_as_leader(batch, 0, NOW_MS)
        if hour < 4:
            log.roll(NOW_MS)
    return log


def look(log: PartitionLog, checkpoint: int | None = None, **facts: int) -> Cleanable:
    return find_cleanable(
        log,
        checkpoint,
        facts.get("high_watermark", log.log_end_offset),
        facts.get("now_ms", FIRST_MS + 5 * HOUR_MS),
    )


def test_everything_but_the_active_segment(log: PartitionLog) -> None:
    found = look(log)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (0, 40)
    assert [segment.base_offset for segment in found.segments] == [0, 10, 20, 30]
    assert (found.clean_bytes, found.dirty_ratio) == (0, 1.0)


@pytest.mark.parametrize(
    ("checkpoint", "first_dirty", "ratio"),
    [(0, 0, 1.0), (10, 10, 0.75), (15, 15, 0.6), (40, 40, 0.0), (51, 0, 1.0)],
)
def test_the_dirty_part_begins_where_the_last_cleaning_ended(
    log: PartitionLog, checkpoint: int, first_dirty: int, ratio: float
) -> None:
    found = look(log, checkpoint)
    assert found.first_dirty_offset == first_dirty
    assert found.first_uncleanable_offset == 40
    # A segment that is clean in part counts on both sides, as in Kafka.
    assert found.dirty_ratio == pytest.approx(ratio)


def test_a_checkpoint_before_the_log_start_is_not_believed(log: PartitionLog) -> None:
    log.increment_log_start_offset(25)
    assert look(log, 10).first_dirty_offset == 25


@pytest.mark.parametrize(("high_watermark", "end"), [(50, 40), (39, 30), (30, 30), (5, 0)])
def test_what_is_not_committed_is_left_alone(
    log: PartitionLog, high_watermark: int, end: int
) -> None:
    assert look(log, high_watermark=high_watermark).first_uncleanable_offset == end


def test_an_open_transaction_and_what_follows_is_left_alone(disk: MemoryDisk) -> None:
    log = open_log(disk, CONFIG)
    verified(log, 4)
    for number in range(4):
        transactional = number == 1
        batch = make_batch(producer_id=4 if transactional else -1, transactional=transactional)
        log.append_as_leader(batch, 0, NOW_MS)
        log.append_as_leader(make_batch(), 0, NOW_MS)
        log.roll(NOW_MS)
    assert look(log).first_uncleanable_offset == 2


def test_young_records_are_left_alone(log: PartitionLog) -> None:
    log.config = replace(CONFIG, min_compaction_lag_ms=2 * HOUR_MS)
    assert look(log, now_ms=FIRST_MS + 4 * HOUR_MS).first_uncleanable_offset == 30
    assert look(log, now_ms=FIRST_MS).first_uncleanable_offset == 0
    # What was cleaned already stays so.
    assert look(log, 20, now_ms=FIRST_MS).first_uncleanable_offset == 20


def test_a_log_is_due_when_it_is_dirty_enough(log: PartitionLog) -> None:
    log.config = replace(CONFIG, min_cleanable_dirty_ratio=0.6)
    assert look(log, 10).is_due
    assert not look(log, 20).is_due
    assert not look(log, 15).is_due  # exactly the ratio


def test_a_log_is_due_when_something_has_waited_for_too_long(log: PartitionLog) -> None:
    log.config = replace(CONFIG, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=HOUR_MS)
    assert not look(log, 20, now_ms=FIRST_MS + 3 * HOUR_MS).is_due
    assert look(log, 20, now_ms=FIRST_MS + 3 * HOUR_MS + 1).is_due
    assert not look(log, 40).is_due


def test_the_dirtiest_goes_first(log: PartitionLog) -> None:
    half, all_of_it, clean = look(log, 20), look(log), look(log, 40)
    assert dirtiest([half, all_of_it, clean]) is all_of_it
    assert dirtiest([clean]) is None
    assert dirtiest([]) is None

"""Which segments retention lets go, and what remains of the log when they are gone."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.partition_log import (
    DIRECTORY,
    NOW_MS,
    Observer,
    close_cleanly,
    fill,
    make_batch,
    open_log,
    read_values,
)

from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.log import PartitionLog
from moldau.log.errors import StorageError
from moldau.log.partition.retention import count_deletable
from moldau.testing.disk import MemoryDisk

DAY_MS = 86_400_000


@dataclass
class Facts:
    """A segment without files."""

    base_offset: int
    size: int = 100
    timestamp: int = NOW_MS

    def largest_timestamp(self) -> int:
        return self.timestamp


def count(
    segments: list[Facts],
    *,
    start: int = 0,
    end: int | None = None,
    high_watermark: int | None = None,
    **config: object,
) -> int:
    end = segments[-1].base_offset + 10 if end is None else end
    return count_deletable(
        segments,
        TopicConfig(**config),  # type: ignore[arg-type]
        log_start_offset=start,
        log_end_offset=end,
        high_watermark=end if high_watermark is None else high_watermark,
        now_ms=NOW_MS,
    )


def aged(*days: float) -> list[Facts]:
    """Segments of ten records each whose newest record is so many days old."""
    return [Facts(10 * n, 100, NOW_MS - int(age * DAY_MS)) for n, age in enumerate(days)]


def test_segments_whose_newest_record_is_older_than_retention_ms_go() -> None:
    assert count(aged(9, 8, 6, 5)) == 2
    assert count(aged(6, 5)) == 0
    assert count(aged(9, 8, 6), retention_ms=-1) == 0
    assert count(aged(2, 1), retention_ms=0) == 2


def test_a_segment_exactly_as_old_as_retention_ms_stays() -> None:
    segments = [Facts(0, timestamp=NOW_MS - 1000), Facts(10)]
    assert count(segments, retention_ms=1000) == 0
    segments[0].timestamp -= 1
    assert count(segments, retention_ms=1000) == 1


def test_a_time_in_the_future_keeps_its_segment_and_those_behind_it() -> None:
    assert count(aged(9, -3, 9, 1)) == 1


def test_all_segments_may_go_but_an_empty_active_one() -> None:
    assert count(aged(9, 8)) == 2
    assert count([*aged(9, 8), Facts(20, 0, NOW_MS - 9 * DAY_MS)], end=20) == 2
    assert count([Facts(20, 0, 0)], end=20) == 0


def test_the_oldest_go_while_the_rest_is_as_large_as_retention_bytes() -> None:
    segments = [Facts(10 * n) for n in range(5)]
    assert count(segments, retention_bytes=-1) == 0
    assert count(segments, retention_bytes=501) == 0
    assert count(segments, retention_bytes=500) == 0
    assert count(segments, retention_bytes=401) == 0
    assert count(segments, retention_bytes=400) == 1
    assert count(segments, retention_bytes=150) == 3
    assert count(segments, retention_bytes=0) == 5


def test_nothing_beyond_the_high_watermark_goes() -> None:
    assert count(aged(9, 9, 9), high_watermark=30) == 3
    assert count(aged(9, 9, 9), high_watermark=29) == 2
    assert count(aged(9, 9, 9), high_watermark=19) == 1
    assert count(aged(9, 9, 9), high_watermark=9) == 0
    assert count(aged(1, 1, 1), high_watermark=9, retention_bytes=0) == 0


def test_segments_before_the_log_start_go_whatever_the_policy() -> None:
    for policy in (frozenset[str](), {"delete"}, {"compact"}, {"compact", "delete"}):
        chosen = frozenset(policy)
        assert count(aged(1, 1, 1), start=19, cleanup_policy=chosen) == 1
        assert count(aged(1, 1, 1), start=25, cleanup_policy=chosen) == 2
        assert count(aged(1, 1, 1), start=30, cleanup_policy=chosen) == 2, "the last one stays"


def test_only_the_policy_delete_looks_at_time_and_size() -> None:
    for policy, expected in (("", 0), ("compact", 0), ("delete", 2), ("compact,delete", 2)):
        chosen = frozenset(policy.split(",")) if policy else frozenset()
        assert count(aged(9, 9, 1), cleanup_policy=chosen) == expected
        assert count(aged(1, 1, 1), cleanup_policy=chosen, retention_bytes=100) == expected


segments_of_a_log = st.lists(
    st.tuples(st.integers(0, 5), st.integers(-3, 12)), min_size=1, max_size=8
).map(lambda found: [Facts(10 * n, size, NOW_MS - age) for n, (size, age) in enumerate(found)])


@given(
    segments_of_a_log,
    st.integers(0, 80),
    st.integers(0, 90),
    st.integers(-1, 12),
    st.integers(-1, 30),
)
def test_the_rules_say_no_more_and_no_less(
    segments: list[Facts], start: int, high_watermark: int, retention_ms: int, retention_bytes: int
) -> None:
    """The same rules, once more, each as a statement about the segments that went or stayed."""
    end = segments[-1].base_offset + (10 if segments[-1].size else 0)
    gone = count(
        segments,
        start=min(start, end),
        end=end,
        high_watermark=high_watermark,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
    )

    def end_of(number: int) -> int:
        return segments[number + 1].base_offset if number + 1 < len(segments) else end

    def before_start(number: int) -> bool:
        return number + 1 < len(segments) and end_of(number) <= min(start, end)

    first = sum(map(before_start, range(len(segments))))

    def may_go(number: int) -> bool:
        is_empty_last = number + 1 == len(segments) and segments[number].size == 0
        return end_of(number) <= high_watermark and not is_empty_last

    def too_much(number: int) -> bool:
        rest = sum(segment.size for segment in segments[number + 1 :])
        return 0 <= retention_bytes <= rest

    def too_old(number: int) -> bool:
        return 0 <= retention_ms < NOW_MS - segments[number].timestamp

    for number in range(first, gone):
        assert may_go(number)
        assert too_much(number) or too_old(number)
    assert gone >= first
    if gone < len(segments) and may_go(gone):
        assert not too_old(gone)
        assert not too_much(gone) or not all(map(too_much, range(first, gone)))


# On a log ----------------------------------------------------------------------------------------

SMALL = TopicConfig(segment_bytes=400, retention_ms=DAY_MS, retention_bytes=-1)


def add(log: PartitionLog, timestamp: int, *, batches: int = 1, epoch: int = 0, **how: int) -> None:
    for _ in range(batches):
        batch = make_batch(size=50, timestamps=[timestamp], **how)  # type: ignore[arg-type]
        log.append_as_leader(batch, epoch, NOW_MS)


def old_and_new(disk: MemoryDisk) -> PartitionLog:
    """Records from 0 on are three days old, those from 10 on are of today."""
    log = open_log(disk, SMALL)
    add(log, NOW_MS - 3 * DAY_MS, batches=10, epoch=1)
    log.roll(NOW_MS)
    add(log, NOW_MS, batches=10, epoch=2)
    return log


def clean(log: PartitionLog, high_watermark: int | None = None, at_most: int = 1000) -> int:
    end = log.log_end_offset if high_watermark is None else high_watermark
    return log.delete_old_segments(end, NOW_MS, at_most=at_most)


def test_the_log_starts_where_its_first_segment_does(disk: MemoryDisk) -> None:
    log = old_and_new(disk)
    segments = len(log.segments)
    assert clean(log) > 0
    assert log.log_start_offset == log.segments[0].base_offset == 10
    assert len(log.segments) < segments
    assert len(read_values(log)) == 10
    with pytest.raises(KafkaError) as refused:
        log.read(9, 100, 20)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert clean(log) == 0
    close_cleanly(log)
    log = open_log(disk, SMALL, clean=True)
    assert (log.log_start_offset, log.log_end_offset) == (10, 20)


def test_epochs_and_producer_snapshots_go_with_the_segments(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL)
    for sequence in range(20):
        add(
            log,
            NOW_MS - (3 * DAY_MS if sequence < 10 else 0),
            epoch=1 if sequence < 10 else 2,
            producer_id=7,
            sequence=sequence,
        )
        if sequence == 9:
            log.roll(NOW_MS)
    assert clean(log) > 0
    assert [entry.start_offset for entry in log.leader_epochs.entries] == [10]
    snapshots = sorted(name for name in disk.listdir(DIRECTORY) if name.endswith(".snapshot"))
    assert int(snapshots[0][:20]) >= 10
    assert log.producers.producers[7].last_sequence == 19


def test_without_a_young_record_all_goes_and_offsets_go_on(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL)
    add(log, NOW_MS - 3 * DAY_MS, batches=10)
    assert clean(log) == 4
    assert log.log_start_offset == log.log_end_offset == 10
    assert [(segment.base_offset, segment.size) for segment in log.segments] == [(10, 0)]
    assert clean(log) == 0
    add(log, NOW_MS)
    assert log.log_end_offset == 11
    assert len(read_values(log)) == 1


def test_what_is_not_committed_stays(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL)
    add(log, NOW_MS - 3 * DAY_MS, batches=10)
    bases = [segment.base_offset for segment in log.segments]
    assert clean(log, high_watermark=bases[1] - 1) == 0
    assert clean(log, high_watermark=bases[1]) == 1
    assert log.log_start_offset == bases[1]
    assert clean(log, high_watermark=9) == len(bases) - 2
    assert clean(log, high_watermark=10) == 1


def test_a_few_at_a_time(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL)
    add(log, NOW_MS - 3 * DAY_MS, batches=40)
    segments = len(log.segments)
    counts = []
    while deleted := clean(log, at_most=3):
        counts.append(deleted)
        assert log.log_start_offset == log.segments[0].base_offset
    assert sum(counts) == segments
    assert set(counts[:-1]) == {3}


def test_a_reader_in_flight_finishes(disk: MemoryDisk) -> None:
    log = old_and_new(disk)
    found = log.read(0, 1 << 20, 20)
    assert found is not None
    before = found.read()
    assert clean(log) > 0
    for name in [name for name in disk.listdir(DIRECTORY) if name.endswith(".deleted")]:
        disk.remove(f"{DIRECTORY}/{name}")
    assert found.read() == before


def test_files_are_renamed_and_named_to_whoever_removes_them(disk: MemoryDisk) -> None:
    log = old_and_new(disk)
    removed = Observer(log).removed
    clean(log)
    waiting = [name for name in disk.listdir(DIRECTORY) if name.endswith(".deleted")]
    assert sorted(removed) == sorted(f"{DIRECTORY}/{name}" for name in waiting)
    assert {name.split(".", 1)[1] for name in waiting} >= {"log.deleted", "timeindex.deleted"}


def test_records_without_a_time_age_from_the_last_append(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL)
    disk.now_ms = NOW_MS - DAY_MS
    add(log, -1, batches=3)
    log.roll(NOW_MS)
    assert clean(log) == 0
    assert log.delete_old_segments(3, NOW_MS + 1, at_most=9) == 1


def test_an_index_opened_for_retention_alone_is_closed_again(disk: MemoryDisk) -> None:
    log = old_and_new(disk)
    close_cleanly(log)
    log = open_log(disk, SMALL, clean=True)
    before = disk.operations["open"]
    assert log.segments[0].largest_timestamp() == NOW_MS - 3 * DAY_MS
    assert log.segments[0]._time_index is None
    assert not log.segments[0].is_open
    reads = disk.operations["read"], disk.operations["open"] - before
    assert log.segments[0].largest_timestamp() == NOW_MS - 3 * DAY_MS
    assert reads == (disk.operations["read"], disk.operations["open"] - before), "kept in mind"


def test_a_damaged_time_index_is_rebuilt_before_it_is_believed(disk: MemoryDisk) -> None:
    log = old_and_new(disk)
    close_cleanly(log)
    disk.write(log.segments[0].path(".timeindex"), b"\0" * 24)
    log = open_log(disk, SMALL, clean=True)
    assert log.segments[0].largest_timestamp() == NOW_MS - 3 * DAY_MS
    assert clean(log) > 0
    assert log.log_start_offset == 10


def test_segments_left_by_a_crash_before_the_start_offset_go_too(disk: MemoryDisk) -> None:
    log = old_and_new(disk)
    close_cleanly(log)
    log = open_log(
        disk,
        TopicConfig(segment_bytes=400, cleanup_policy=frozenset({"compact"})),
        clean=True,
        log_start_offset=15,
    )
    assert clean(log) > 0
    assert log.log_start_offset == 15
    assert log.segments[0].base_offset <= 15 < log.segments[1].base_offset


def test_a_power_cut_amid_deletion_leaves_a_log_that_opens(disk: MemoryDisk) -> None:
    for operations in range(1, 30):
        broken = MemoryDisk(disk.rng)
        broken.makedirs(DIRECTORY)
        log = old_and_new(broken)
        log.durability.flush(NOW_MS)
        broken.sync_filesystem("/")
        broken.fail(5, after=operations, operations=frozenset({"rename"}))
        with suppress(StorageError):
            clean(log)
        again = open_log(broken.power_cut(), SMALL, recovery_point=20)
        assert again.log_end_offset == 20
        assert again.log_start_offset <= 10
        assert len(read_values(again)) == 20 - again.log_start_offset
        assert clean(again) >= 0
        assert again.log_start_offset == 10


def test_retention_off_keeps_everything(disk: MemoryDisk) -> None:
    log = open_log(disk, TopicConfig(segment_bytes=400, retention_ms=-1))
    fill(log, 20)
    assert log.delete_old_segments(20, NOW_MS + 9999 * DAY_MS, at_most=99) == 0

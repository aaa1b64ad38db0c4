"""Append, read, roll, truncate, flush."""

from __future__ import annotations

import contextlib
import errno
import gzip
import struct

import pytest
from tests.support.partition_log import (
    DIRECTORY,
    NOW_MS,
    Observer,
    close_cleanly,
    fill,
    make_batch,
    open_log,
    read_batches,
    verified,
)

from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.log import AppendOrigin, LongSearchError, PartitionLog, TimeLookup
from moldau.log.errors import UnexpectedOffsetError
from moldau.machine.disk import File
from moldau.records.batch import (
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    iter_headers,
    read_header,
    write_crc,
)
from moldau.records.builder import build_batch
from moldau.records.compression import Compression
from moldau.records.control import ControlType, build_end_txn_marker
from moldau.records.record import Record
from moldau.testing.disk import MemoryDisk

SMALL = TopicConfig(segment_bytes=1000, index_interval_bytes=100)


def code_of(call: object, *args: object, **kwargs: object) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        call(*args, **kwargs)  # type: ignore[operator]
    return error.value.code


# Appending ---------------------------------------------------------------------------------------


def test_an_append_gives_offsets_and_the_leader_epoch(disk: MemoryDisk) -> None:
    log = open_log(disk)
    first = log.append_as_leader(make_batch(3), 5, NOW_MS)
    second = log.append_as_leader(make_batch(2), 6, NOW_MS)
    assert (first.first_offset, first.last_offset, first.duplicate) == (0, 2, False)
    assert (second.first_offset, second.last_offset, log.log_end_offset) == (3, 4, 5)
    headers = [header for _, header in iter_headers(read_batches(log))]
    assert [(h.base_offset, h.partition_leader_epoch) for h in headers] == [(0, 5), (3, 6)]
    assert log.leader_epochs.entries == [(5, 0), (6, 3)]
    assert log.size == first.size + second.size


def test_the_append_time_is_answered_only_where_it_is_used(disk: MemoryDisk) -> None:
    log = open_log(disk)
    assert log.append_as_leader(make_batch(), 0, NOW_MS).log_append_time_ms == -1
    log.config = TopicConfig(message_timestamp_type="LogAppendTime")
    assert log.append_as_leader(make_batch(), 0, NOW_MS + 7).log_append_time_ms == NOW_MS + 7


def test_a_duplicate_is_answered_with_its_first_offset(disk: MemoryDisk) -> None:
    log = open_log(disk)
    fill(log, 3)
    log.append_as_leader(make_batch(2, producer_id=1, sequence=0), 0, NOW_MS)
    fill(log, 1)
    again = log.append_as_leader(make_batch(2, producer_id=1, sequence=0), 0, NOW_MS)
    assert again.duplicate
    assert (again.first_offset, again.last_offset, again.size) == (3, 4, 0)
    assert log.log_end_offset == 6
    gap = make_batch(producer_id=1, sequence=9)
    assert code_of(log.append_as_leader, gap, 0, NOW_MS) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 6


def test_a_refused_batch_changes_nothing(disk: MemoryDisk) -> None:
    log = open_log(disk)
    fill(log, 1)
    before = read_batches(log)
    broken = make_batch()
    broken[-1] ^= 1
    assert code_of(log.append_as_leader, broken, 0, NOW_MS) is ErrorCode.CORRUPT_MESSAGE
    assert read_batches(log) == before
    assert log.log_end_offset == 1


def test_what_does_not_fit_a_segment_is_refused(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL)
    large = make_batch(size=1000)
    assert code_of(log.append_as_leader, large, 0, NOW_MS) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_coordinator_may_write_several_batches_and_markers(disk: MemoryDisk) -> None:
    log = open_log(disk)
    verified(log, 9)
    log.append_as_leader(make_batch(2, producer_id=9, sequence=0, transactional=True), 0, NOW_MS)
    undecided = log.producers.first_undecided_offset
    assert undecided == 0
    assert log.last_stable_offset(log.log_end_offset) == 0
    marker = build_end_txn_marker(
        ControlType.ABORT,
        producer_id=9,
        producer_epoch=0,
        coordinator_epoch=3,
        timestamp=NOW_MS,
    )
    records = memoryview(bytearray(bytes(make_batch(2)) + bytes(marker)))
    info = log.append_as_leader(records, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    assert (info.first_offset, info.last_offset) == (2, 4)
    assert log.producers.first_undecided_offset is None
    assert log.last_stable_offset(4) == 0, "the marker at offset 4 is not replicated yet"
    assert log.last_stable_offset(5) == 5
    assert log.aborted_transactions(0, 5) == [(9, 0)]
    assert log.aborted_transactions(5, 9) == []
    (producer,) = log.active_producers()
    assert (producer.producer_id, producer.coordinator_epoch) == (9, 3)


# As a follower -----------------------------------------------------------------------------------


def test_a_follower_takes_the_leaders_batches_as_they_are(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL)
    batches = [
        make_batch(2, base_offset=0, leader_epoch=3),
        make_batch(2, base_offset=2, leader_epoch=4, producer_id=5),
    ]
    records = memoryview(bytearray(b"".join(batches) + bytes(batches[0][:30])))
    info = log.append_as_follower(records, NOW_MS)
    assert (info.first_offset, info.last_offset) == (0, 3)
    assert read_batches(log) == b"".join(batches)
    assert log.leader_epochs.entries == [(3, 0), (4, 2)]
    assert [producer.producer_id for producer in log.active_producers()] == [5]
    assert log.append_as_follower(memoryview(b""), NOW_MS).size == 0


def test_a_follower_may_have_gaps_where_the_leader_has(disk: MemoryDisk) -> None:
    log = open_log(disk, TopicConfig(cleanup_policy=frozenset({"compact"})))
    log.append_as_follower(make_batch(2, base_offset=0), NOW_MS)
    log.append_as_follower(make_batch(2, base_offset=10), NOW_MS)
    found = log.read(5, 1000, log.log_end_offset)
    assert found is not None
    assert read_header(found.read()).base_offset == 10


def test_a_follower_refuses_what_does_not_continue_its_log(disk: MemoryDisk) -> None:
    log = open_log(disk)
    log.append_as_follower(make_batch(3), NOW_MS)
    with pytest.raises(UnexpectedOffsetError) as error:
        log.append_as_follower(make_batch(base_offset=2), NOW_MS)
    assert error.value.first_offset == 2
    broken = make_batch(base_offset=3)
    broken[-1] ^= 1
    assert code_of(log.append_as_follower, broken, NOW_MS) is ErrorCode.CORRUPT_MESSAGE


def test_an_offset_far_away_starts_a_new_segment(disk: MemoryDisk) -> None:
    log = open_log(disk, TopicConfig(cleanup_policy=frozenset({"compact"})))
    far = 5 * 2**31
    log.append_as_follower(make_batch(base_offset=far), NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [far]
    log.append_as_follower(make_batch(base_offset=2 * far), NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [far, 2 * far]


# Reading -----------------------------------------------------------------------------------------


@pytest.fixture(params=["tail", "index"])
def ten_batches(request: pytest.FixtureRequest, disk: MemoryDisk) -> PartitionLog:
    """Batches of two records, 20 offsets in all, in one segment; remembered or only on disk."""
    log = open_log(disk, TopicConfig(index_interval_bytes=100))
    fill(log, 10, count=2)
    if request.param == "tail":
        return log
    close_cleanly(log)
    return open_log(disk, TopicConfig(index_interval_bytes=100), clean=True)


def batch_size(log: PartitionLog) -> int:
    return log.size // 10


def test_a_read_begins_with_the_batch_that_holds_the_offset(ten_batches: PartitionLog) -> None:
    for offset in range(20):
        found = ten_batches.read(offset, 10_000, 20)
        assert found is not None
        assert read_header(found.read()).base_offset == offset // 2 * 2
        assert found.size == (10 - offset // 2) * batch_size(ten_batches)


def test_a_read_ends_before_the_upper_offset(ten_batches: PartitionLog) -> None:
    for offset in range(20):
        for upper in range(21):
            found = ten_batches.read(offset, 10_000, upper)
            first, last = offset // 2, upper // 2
            if upper <= offset or last <= first:
                assert found is None
            else:
                assert found is not None
                assert found.size == (last - first) * batch_size(ten_batches)


def test_the_first_batch_comes_whole_or_not_at_all(ten_batches: PartitionLog) -> None:
    size = batch_size(ten_batches)
    for offset in (0, 19):
        whole = ten_batches.read(offset, 1, 20, min_one_batch=True)
        assert whole is not None
        assert whole.size == size
        # A fragment that no client could use is not sent, as with Kafka.
        assert ten_batches.read(offset, 1, 20, min_one_batch=False) is None
        assert ten_batches.read(offset, size - 1, 20, min_one_batch=False) is None
        assert ten_batches.read(offset, 0, 20, min_one_batch=False) is None
    more = ten_batches.read(0, size + 5, 20)
    assert more is not None
    assert more.size == size + 5


def test_reads_outside_the_log_are_refused(ten_batches: PartitionLog) -> None:
    assert code_of(ten_batches.read, 21, 100, 20) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert code_of(ten_batches.read, -1, 100, 20) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert ten_batches.read(20, 100, 20) is None


def test_a_read_stays_within_a_segment(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL)
    fill(log, 30)
    assert len(log.segments) > 3
    for number, segment in enumerate(log.segments[:-1]):
        found = log.read(segment.base_offset, 10**6, log.log_end_offset)
        assert found is not None
        assert (found.position, found.size) == (0, segment.size)
        upper = log.segments[number + 1].base_offset
        bounded = log.read(segment.base_offset, 10**6, upper)
        assert bounded is not None
        assert bounded.size == segment.size


def test_a_slice_is_readable_after_its_segment_is_deleted(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL)
    fill(log, 30)
    found = log.read(0, 10**6, log.log_end_offset)
    assert found is not None
    before = found.read()
    log.increment_log_start_offset(log.log_end_offset)
    assert found.read() == before


# Time --------------------------------------------------------------------------------------------


def test_offsets_are_found_by_timestamp(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL)
    for number in range(40):
        times = (NOW_MS + number * 10, NOW_MS + number * 10 + 5)
        log.append_as_leader(make_batch(2, timestamps=times), 0, NOW_MS + 1000)
    assert log.offset_for_timestamp(0) == (NOW_MS, 0, 0)
    assert log.offset_for_timestamp(NOW_MS + 101) == (NOW_MS + 105, 21, 0)
    assert log.offset_for_timestamp(NOW_MS + 395) == (NOW_MS + 395, 79, 0)
    assert log.offset_for_timestamp(NOW_MS + 396) is None
    assert log.max_timestamp_offset() == (NOW_MS + 395, 79, 0)
    log.increment_log_start_offset(43)
    assert log.offset_for_timestamp(0) == (NOW_MS + 215, 43, 0)


def test_the_largest_timestamp_may_be_anywhere(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL)
    assert log.max_timestamp_offset() is None
    for number in range(30):
        log.append_as_leader(make_batch(3, timestamps=(NOW_MS - number,)), 0, NOW_MS)
    log.append_as_leader(make_batch(3, timestamps=(NOW_MS, NOW_MS + 9)), 0, NOW_MS)
    fill(log, 30)
    assert log.max_timestamp_offset() == (NOW_MS + 9, 91, 0)


def test_records_deleted_during_a_long_search_are_not_found(disk: MemoryDisk) -> None:
    log = open_log(disk)
    records = [Record(0, NOW_MS + number, None, bytes(1_200_000)) for number in range(3)]
    batch = build_batch(records, compression=Compression.ZSTD)
    log.append_as_leader(memoryview(batch), 0, NOW_MS)
    lookup = TimeLookup()
    for deleted, found in ((0, 1), (2, 2)):
        log.increment_log_start_offset(deleted)
        with pytest.raises(LongSearchError) as long:
            log.offset_for_timestamp(NOW_MS + 1, lookup)
        lookup.finish(long.value.search)
        assert log.offset_for_timestamp(NOW_MS + 1, lookup) == (NOW_MS + found, found, 0)


def test_a_batch_of_many_parts_is_searched_in_a_thread(disk: MemoryDisk) -> None:
    log = open_log(disk)
    batch = build_batch([Record(0, NOW_MS, None, b"v")], compression=Compression.GZIP)
    batch += 2000 * gzip.compress(b"")
    struct.pack_into(">i", batch, LENGTH_OFFSET, len(batch) - LOG_OVERHEAD)
    write_crc(batch, 0, len(batch))
    log.append_as_leader(memoryview(batch), 0, NOW_MS)
    lookup = TimeLookup()
    with pytest.raises(LongSearchError) as long:
        log.offset_for_timestamp(NOW_MS - 1, lookup)
    lookup.finish(long.value.search)
    assert log.offset_for_timestamp(NOW_MS - 1, lookup) == (NOW_MS, 0, 0)


def test_a_batch_that_was_checked_earlier_has_the_time_of_its_append(disk: MemoryDisk) -> None:
    log = open_log(disk, TopicConfig(message_timestamp_type="LogAppendTime"))
    checked = log.check(make_batch(3), 1000)
    log.append_as_leader(make_batch(1), 0, 2000)
    info = log.append_as_leader(checked, 0, 3000)
    assert (info.first_offset, info.log_append_time_ms) == (1, 3000)
    headers = [header for _, header in iter_headers(read_batches(log))]
    assert [header.max_timestamp for header in headers] == [2000, 3000]


def test_append_time_batches_are_found_by_their_first_record(disk: MemoryDisk) -> None:
    log = open_log(disk, TopicConfig(message_timestamp_type="LogAppendTime"))
    log.append_as_leader(make_batch(3), 0, 1000)
    log.append_as_leader(make_batch(3), 0, 2000)
    assert log.offset_for_timestamp(1500) == (2000, 3, 0)
    assert log.max_timestamp_offset() == (2000, 3, 0)


# Rolling -----------------------------------------------------------------------------------------


def test_a_full_segment_rolls_and_leaves_everything_in_its_files(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL)
    observer = Observer(log)
    fill(log, 12)
    second = log.segments[1].base_offset
    assert observer.rolled_to == [segment.base_offset for segment in log.segments[1:]]
    assert len(observer.rolled_to) > 0
    names = disk.listdir(DIRECTORY)
    for suffix in ("log", "index", "timeindex"):
        assert f"{0:020d}.{suffix}" in names
    assert f"{second:020d}.snapshot" in names
    assert disk.size(f"{DIRECTORY}/{0:020d}.index") == 8 * log.segments[0].offset_index.count > 0
    assert all(segment.size <= 1000 for segment in log.segments)


def test_a_segment_rolls_when_its_index_is_full(disk: MemoryDisk) -> None:
    log = open_log(disk, TopicConfig(index_interval_bytes=0, segment_index_bytes=40))
    fill(log, 20)
    assert len(log.segments) > 3
    assert all(segment.offset_index.count <= 5 for segment in log.segments)


def test_a_segment_rolls_by_the_records_time(disk: MemoryDisk) -> None:
    log = open_log(disk, TopicConfig(segment_ms=1000))
    for time in (0, 500, 1000, 1001, 1500, 2002):
        log.append_as_leader(make_batch(timestamps=(NOW_MS + time,)), 0, NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 5]


def test_records_without_time_roll_by_the_clock(disk: MemoryDisk) -> None:
    log = open_log(disk, TopicConfig(segment_ms=1000))
    for now in (0, 1000, 1001):
        log.append_as_leader(make_batch(timestamps=(-1,)), 0, NOW_MS + now)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_the_roll_by_time_survives_a_restart(disk: MemoryDisk) -> None:
    config = TopicConfig(segment_ms=1000)
    log = open_log(disk, config)
    fill(log, 1)
    close_cleanly(log)
    log = open_log(disk, config, clean=True)
    log.append_as_leader(make_batch(timestamps=(NOW_MS + 1001,)), 0, NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_jitter_makes_segments_roll_earlier(disk: MemoryDisk) -> None:
    log = open_log(disk, TopicConfig(segment_ms=1_000_000, segment_jitter_ms=1_000_000))
    fill(log, 1)
    log.append_as_leader(make_batch(timestamps=(NOW_MS + 999_999,)), 0, NOW_MS)
    assert len(log.segments) == 2


def test_a_roll_of_an_empty_segment_does_nothing(disk: MemoryDisk) -> None:
    log = open_log(disk)
    log.roll(NOW_MS)
    assert len(log.segments) == 1
    fill(log, 1)
    log.roll(NOW_MS)
    log.roll(NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_settings_can_change_at_any_time(disk: MemoryDisk) -> None:
    log = open_log(disk)
    fill(log, 12)
    assert len(log.segments) == 1
    log.config = SMALL
    fill(log, 2)
    assert len(log.segments) == 2


def test_a_preallocated_segment_is_cut_to_its_size(disk: MemoryDisk) -> None:
    log = open_log(disk, TopicConfig(segment_bytes=1000, preallocate=True))
    fill(log, 12)
    active = log.segments[-1].path(".log")
    assert disk.size(active) == 1000
    assert disk.size(log.segments[0].path(".log")) == log.segments[0].size < 1000
    close_cleanly(log)
    assert disk.size(active) == log.segments[-1].size


# The ends of the log -----------------------------------------------------------------------------


def test_deleting_records_moves_the_start_and_removes_whole_segments(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL)
    fill(log, 40)
    removed = Observer(log).removed
    third = log.segments[2].base_offset
    assert log.increment_log_start_offset(third + 1)
    assert log.log_start_offset == third + 1
    assert log.segments[0].base_offset == third
    assert log.leader_epochs.entries == [(0, third + 1)]
    assert code_of(log.read, third, 100, 40) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(third + 1, 100, 40) is not None
    assert all(path.endswith(".deleted") for path in removed)
    assert all(disk.exists(path) for path in removed)
    assert not log.increment_log_start_offset(5)
    assert code_of(log.increment_log_start_offset, 41) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.earliest() == (third + 1, 0)


def test_truncation_cuts_at_a_batch(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL)
    for number in range(20):
        log.append_as_leader(
            make_batch(2, size=50, producer_id=1, sequence=number * 2), number // 5, NOW_MS
        )
    before = read_batches(log)
    log.durability.flush(NOW_MS)
    assert not log.truncate_to(40, NOW_MS)
    assert log.truncate_to(25, NOW_MS)
    assert log.log_end_offset == log.recovery_point == 24
    assert before.startswith(read_batches(log))
    assert log.leader_epochs.entries == [(0, 0), (1, 10), (2, 20)]
    assert log.end_offset_for_epoch(2) == (2, 24)
    (producer,) = log.active_producers()
    assert producer.last_sequence == 23
    info = log.append_as_leader(make_batch(producer_id=1, sequence=24), 7, NOW_MS)
    assert info.first_offset == 24
    assert log.truncate_to(0, NOW_MS)
    assert (log.log_end_offset, log.size, len(log.segments)) == (0, 0, 1)


def test_truncating_fully_begins_elsewhere(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL)
    fill(log, 20)
    log.truncate_fully_and_start_at(100, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (100, 100, 100)
    assert log.append_as_leader(make_batch(), 0, NOW_MS).first_offset == 100
    assert [name for name in disk.listdir(DIRECTORY) if name.endswith(".log")] == [
        f"{100:020d}.log"
    ]


# Flushing ----------------------------------------------------------------------------------------


def test_the_recovery_point_follows_a_flush(disk: MemoryDisk) -> None:
    log = open_log(disk)
    fill(log, 3)
    job = log.durability.prepare_flush()
    assert job is not None
    fill(log, 2)
    job.run()
    assert log.recovery_point == 0
    log.durability.complete_flush(job, NOW_MS)
    assert log.recovery_point == 3
    log.durability.flush(NOW_MS)
    assert log.recovery_point == 5
    assert log.durability.prepare_flush() is None
    assert disk.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n0 0\n"


def test_a_flush_from_before_a_truncation_does_not_count(disk: MemoryDisk) -> None:
    log = open_log(disk)
    fill(log, 10)
    job = log.durability.prepare_flush()
    assert job is not None
    log.truncate_to(5, NOW_MS)
    fill(log, 5)
    job.run()
    log.durability.complete_flush(job, NOW_MS)
    assert log.recovery_point == 0


def test_flush_messages_asks_for_a_flush_before_the_answer(disk: MemoryDisk) -> None:
    log = open_log(disk, TopicConfig(flush_messages=3))
    assert not log.append_as_leader(make_batch(2), 0, NOW_MS).flush_due
    assert log.append_as_leader(make_batch(1), 0, NOW_MS).flush_due
    log.durability.flush(NOW_MS)
    assert not log.append_as_leader(make_batch(2), 0, NOW_MS).flush_due


def test_a_failed_sync_takes_the_log_offline(disk: MemoryDisk) -> None:
    log = open_log(disk)
    failed: list[str] = []
    log.on_failure = failed.append
    fill(log, 3)
    disk.fail(5, operations=frozenset({"sync"}))
    assert code_of(log.durability.flush, NOW_MS) is ErrorCode.KAFKA_STORAGE_ERROR
    disk.heal()
    for call in (
        lambda: log.append_as_leader(make_batch(), 0, NOW_MS),
        lambda: log.append_as_follower(make_batch(base_offset=3), NOW_MS),
        lambda: log.read(0, 10, 1),
        lambda: log.offset_for_timestamp(0),
        lambda: log.max_timestamp_offset(),
        lambda: log.roll(NOW_MS),
        lambda: log.truncate_to(0, NOW_MS),
        log.durability.prepare_flush,
    ):
        assert code_of(call) is ErrorCode.KAFKA_STORAGE_ERROR
    assert failed == [log.failure]


@pytest.mark.parametrize("operation", ["open", "sync"])
def test_a_lack_of_descriptors_passes(disk: MemoryDisk, operation: str) -> None:
    log = open_log(disk, SMALL)
    fill(log, 30)
    wanted = read_batches(log)
    close_cleanly(log)
    log = open_log(disk, SMALL, clean=True)
    fill(log, 1)
    log.close()  # the next read, append, roll and flush have to open files
    disk.fail(errno.EMFILE, operations=frozenset({operation}))
    for call in (
        lambda: log.read(0, 1000, 30),
        lambda: log.append_as_leader(make_batch(), 0, NOW_MS),
        lambda: log.roll(NOW_MS),
        lambda: log.durability.flush(NOW_MS),
    ):
        with contextlib.suppress(KafkaError):
            call()
    assert code_of(log.durability.flush, NOW_MS) is ErrorCode.KAFKA_STORAGE_ERROR
    disk.heal()
    assert log.failure is None
    assert read_batches(log).startswith(wanted)
    end = log.log_end_offset
    assert log.append_as_leader(make_batch(), 0, NOW_MS).first_offset == end
    log.durability.flush(NOW_MS)
    assert log.recovery_point == end + 1
    log.close()
    again = open_log(disk, SMALL, recovery_point=end + 1)
    assert again.log_end_offset == end + 1


def test_an_error_of_our_own_takes_the_log_offline_too(disk: MemoryDisk) -> None:
    log = open_log(disk)
    fill(log, 1)
    segment = log.segments[0]
    segment._file = FileWithABug(segment.file)  # type: ignore[assignment]
    assert code_of(fill, log, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failure is not None
    assert open_log(disk).log_end_offset == 1


class FileWithABug:
    """Writes, and then fails on something that is no disk's fault."""

    def __init__(self, file: File) -> None:
        self._file = file

    def append(self, data: bytes) -> None:
        self._file.append(data)
        raise RuntimeError("a bug")

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

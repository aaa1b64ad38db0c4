"""Whatever the indexes know, a read finds what a walk over all batches finds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.partition_log import (
    DIRECTORY,
    NOW_MS,
    close_cleanly,
    make_batch,
    open_log,
)

from moldau.config.values.topic import TopicConfig
from moldau.log import PartitionLog
from moldau.log.errors import OffsetOutOfRangeError
from moldau.machine import FileSlice
from moldau.records.batch import BatchHeader
from moldau.testing.disk import MemoryDisk

SIZES = st.sampled_from([0, 1, 30, 300, 3000, 9000])

leader_append = st.tuples(st.just("lead"), st.integers(1, 4), SIZES)
follower_append = st.tuples(
    st.just("follow"),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), SIZES), min_size=1, max_size=4),
)
truncation = st.tuples(st.just("truncate"), st.floats(0, 1))
others = st.sampled_from([("roll",), ("reopen",), ("recover",), ("read",)])
histories = st.lists(leader_append | follower_append | truncation | others, max_size=25)


def new_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.makedirs(DIRECTORY)
    return disk


def live(disk: MemoryDisk, config: TopicConfig, history: list[tuple]) -> PartitionLog:  # type: ignore[type-arg]
    log = open_log(disk, config)
    for what, *details in history:
        if what == "lead":
            count, size = details
            log.append_as_leader(make_batch(count, size=size), 0, NOW_MS)
        elif what == "follow":
            data, offset = bytearray(), log.log_end_offset
            for gap, count, size in details[0]:
                offset += gap
                data += make_batch(count, size=size, base_offset=offset, leader_epoch=0)
                offset += count
            log.append_as_follower(memoryview(data), NOW_MS)
        elif what == "truncate":
            log.truncate_to(int(details[0] * log.log_end_offset), NOW_MS)
        elif what == "roll":
            log.roll(NOW_MS)
        elif what == "read":
            for offset in range(log.log_start_offset, log.log_end_offset):
                log.read(offset, 1, log.log_end_offset)
        elif what == "reopen":
            end = log.log_end_offset
            close_cleanly(log)
            log = open_log(disk, config, clean=True, recovery_point=end)
        else:
            log.close()
            # Gaps after the recovery point would be taken for damage.
            log = open_log(disk, config, recovery_point=log.log_end_offset)
    return log


def walk(log: PartitionLog) -> Iterator[list[tuple[int, BatchHeader]]]:
    for segment in log.segments:
        yield segment.headers()


def slowly(
    log: PartitionLog, offset: int, max_bytes: int, upper: int, min_one_batch: bool
) -> FileSlice | None:
    """The first batch whose last offset reaches ``offset``, and as much behind it as may be."""
    if offset >= upper:
        return None
    for segment, batches in zip(log.segments, walk(log), strict=True):
        found = [(at, header) for at, header in batches if header.last_offset >= offset]
        if not found:
            continue
        if segment.base_offset >= upper:
            return None
        position, first = found[0]
        ends = [at for at, header in found if header.last_offset >= upper]
        available = (ends[0] if ends else segment.size) - position
        if available <= 0 or (first.size > max_bytes and not min_one_batch):
            return None
        return FileSlice(segment.file, position, min(available, max(max_bytes, first.size)))
    return None


@settings(deadline=None)
@given(
    history=histories,
    interval=st.sampled_from([0, 200, 4096]),
    data=st.data(),
)
def test_a_read_finds_what_a_walk_finds(
    history: list[tuple],  # type: ignore[type-arg]
    interval: int,
    data: st.DataObject,
) -> None:
    config = TopicConfig(index_interval_bytes=interval)
    log = live(new_disk(), config, history)
    end = log.log_end_offset
    limits = st.sampled_from([0, 1, 80, 500, 5000, 20_000, 1 << 20])
    for offset in range(log.log_start_offset, end + 1):
        max_bytes, one = data.draw(limits), data.draw(st.booleans())
        upper = data.draw(st.sampled_from([end, end, max(end - 1, 0), end // 2]))
        # The end itself is no batch's, and what is read ends where a batch ends.
        expected = None if offset == end else slowly(log, offset, max_bytes, upper, one)
        if expected is not None and expected.size <= 0:
            expected = None
        assert log.read(offset, max_bytes, upper, one) == expected, (offset, max_bytes, upper, one)
    for outside in (log.log_start_offset - 1, end + 1):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(outside, 1, end)


def test_large_batches_are_found_without_a_look_at_the_log() -> None:
    disk = new_disk()
    log = open_log(disk)
    for _ in range(200):  # more than the log remembers of its end
        log.append_as_leader(make_batch(5, size=2000), 0, NOW_MS)
    segment = log.segments[0]
    batch = segment.headers()[0][1].size
    file = segment.file
    log.segments[0]._file = NotRead(file.path)  # type: ignore[assignment]
    places = [log.read(offset, 3 * batch, log.log_end_offset) for offset in range(10, 300)]
    segment._file = file
    assert [place and place.position for place in places] == [
        offset // 5 * batch for offset in range(10, 300)
    ]


class NotRead:
    def __init__(self, path: str) -> None:
        self.path = path

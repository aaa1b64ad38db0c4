"""The time index agrees with the batches, whatever happened to the log: appended by a leader or a
follower, rolled, truncated, closed, crashed, compacted, its oldest segments deleted.
"""

from __future__ import annotations

import random

import pytest
from tests.simulation.test_log_cleaner import Table
from tests.support.partition_log import (
    DIRECTORY,
    NOW_MS,
    close_cleanly,
    make_batch,
    open_log,
    read_batches,
)

from moldau.config.values.topic import TopicConfig
from moldau.log import PartitionLog
from moldau.log.tools.dump_index import check_time_entries
from moldau.records.batch import iter_headers
from moldau.records.compression import Compression
from moldau.records.reader import read_records
from moldau.testing.disk import MemoryDisk

CONFIG = TopicConfig(segment_bytes=2500, index_interval_bytes=150, retention_ms=-1)


def check(log: PartitionLog) -> None:
    """Every index, the largest timestamps in memory, and what look-ups find."""
    for segment in log.segments:
        is_active = segment is log.segments[-1]
        faults = check_time_entries(
            segment.file, segment.time_index.entries(), complete=not is_active
        )
        assert not list(faults)
        batches = [(h.max_timestamp, h.last_offset) for _, h in segment.headers()]
        # The first batch with the largest timestamp, or what stands for none.
        largest = max(batches, key=lambda batch: batch[0], default=(-1, segment.base_offset))
        if largest[0] >= 0:
            assert segment.max_timestamp == largest
        else:
            assert segment.max_timestamp.timestamp == -1
    data = read_batches(log, log.segments[0].base_offset) if log.log_end_offset else b""
    records = [
        (record.offset, record.timestamp)
        for position, _ in iter_headers(data)
        for record in read_records(data, position)
    ]
    visible = [one for one in records if one[0] >= log.log_start_offset]
    for wanted in {0, *(time + extra for _, time in visible for extra in (0, 1) if time >= 0)}:
        found = log.offset_for_timestamp(wanted)
        expected = next(((offset, time) for offset, time in visible if time >= wanted), None)
        assert (None if found is None else (found.offset, found.timestamp)) == expected
    newest = log.max_timestamp_offset()
    if records:
        assert newest is not None
        largest_time = max(time for _, time in records)
        first = next(offset for offset, time in records if time == largest_time)
        assert (newest.offset, newest.timestamp) == (first, largest_time)
    else:
        assert newest is None


class Life:
    """One log and what may happen to it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk = MemoryDisk(random.Random(seed))
        self.disk.makedirs(DIRECTORY)
        self.log = open_log(self.disk, CONFIG)

    def times(self, count: int) -> list[int]:
        at = NOW_MS + 10 * self.log.log_end_offset
        return [
            -1 if self.chance.random() < 0.1 else at + self.chance.randrange(-200, 200)
            for _ in range(count)
        ]

    def append(self) -> None:
        for _ in range(self.chance.randrange(1, 12)):
            count = self.chance.randrange(1, 4)
            codec = self.chance.choice([Compression.NONE, Compression.LZ4])
            batch = make_batch(count, timestamps=self.times(count), size=30, compression=codec)
            self.log.append_as_leader(batch, 0, NOW_MS)

    def append_as_follower(self) -> None:
        """Several batches at once: one index entry for all of them."""
        parts, offset = [], self.log.log_end_offset
        for _ in range(self.chance.randrange(1, 6)):
            parts.append(
                make_batch(2, timestamps=self.times(2), size=30, base_offset=offset, leader_epoch=0)
            )
            offset += 2
        self.log.append_as_follower(memoryview(bytearray(b"".join(parts))), NOW_MS)

    def roll(self) -> None:
        self.log.roll(NOW_MS)

    def truncate(self) -> None:
        first, end = self.log.segments[0].base_offset, self.log.log_end_offset
        if end > first:
            self.log.truncate_to(self.chance.randrange(max(first, end - 25), end), NOW_MS)

    def restart(self) -> None:
        start = self.log.log_start_offset
        close_cleanly(self.log)
        self.log = open_log(self.disk, CONFIG, clean=True, log_start_offset=start)

    def flush(self) -> None:
        self.log.durability.flush(NOW_MS)

    def crash(self) -> None:
        """The process dies: everything written is there, what was only in memory is not."""
        start, synced = self.log.log_start_offset, self.log.recovery_point
        self.log.close()
        self.log = open_log(self.disk, CONFIG, recovery_point=synced, log_start_offset=start)

    def delete_oldest(self) -> None:
        if len(self.log.segments) > 3:
            self.log.increment_log_start_offset(self.log.segments[1].base_offset + 1)

    def look(self) -> None:
        """As retention does, which closes again what it opened."""
        for segment in self.log.segments:
            segment.largest_timestamp()

    def step(self) -> None:
        what = self.chance.choices(
            [
                self.append,
                self.append_as_follower,
                self.roll,
                self.truncate,
                self.restart,
                self.flush,
                self.crash,
                self.delete_oldest,
                self.look,
            ],
            [6, 3, 1, 2, 2, 2, 2, 1, 1],
        )
        what[0]()


@pytest.mark.parametrize("seed", range(12))
def test_the_time_index_is_exact_whatever_happened(seed: int) -> None:
    life = Life(seed)
    for _ in range(25):
        life.step()
        check(life.log)


@pytest.mark.parametrize("seed", range(4))
async def test_the_time_index_is_exact_after_compaction(seed: int) -> None:
    table = Table(seed)
    await table.prepare()
    sizes = [segment.size for segment in table.log.segments]
    await table.manager.cleaner.clean_all()
    assert [segment.size for segment in table.log.segments] != sizes
    for segment in table.log.segments:
        complete = segment is not table.log.segments[-1]
        entries = segment.time_index.entries()
        assert not list(check_time_entries(segment.file, entries, complete=complete))
        largest = max((h.max_timestamp for _, h in segment.headers()), default=-1)
        assert segment.max_timestamp.timestamp == largest
    await table.manager.shutdown()


def test_a_wrong_or_missing_entry_is_told(disk: MemoryDisk) -> None:
    life = Life(1)
    for _ in range(5):
        life.append()
    life.roll()
    segment = life.log.segments[0]
    entries = segment.time_index.entries()
    assert len(entries) > 3
    file = segment.file
    assert not list(check_time_entries(file, entries, complete=True))
    assert list(check_time_entries(file, entries[:-1], complete=True))
    assert not list(check_time_entries(file, entries[:-1]))
    wrong = entries[1]._replace(timestamp=entries[1].timestamp - 1)
    assert list(check_time_entries(file, [entries[0], wrong, *entries[2:]]))
    assert list(check_time_entries(file, [*entries, entries[-1]]))

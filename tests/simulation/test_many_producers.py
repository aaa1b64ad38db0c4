"""A log that more producers write to than it remembers: rolled, restarted, crashed, followed.

Who has written lately is known everywhere, whatever happened to the log; how many are known is
bounded everywhere. Of the others a leader, its follower and a log that was recovered may know
different ones: the oldest are forgotten some hundreds at a time, and each counts from its snapshot.
"""

from __future__ import annotations

import random

import pytest
from tests.support.partition_log import DIRECTORY, NOW_MS, close_cleanly, make_batch, open_log

from moldau.config.values.topic import TopicConfig
from moldau.log import PartitionLog
from moldau.log.partition.producer_state import MOST_PRODUCERS
from moldau.records.batch import iter_headers
from moldau.testing.disk import MemoryDisk

CONFIG = TopicConfig(segment_bytes=65_536)
RECENT = MOST_PRODUCERS // 2


def new_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.makedirs(DIRECTORY)
    return disk


class Life:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk = new_disk()
        self.log = open_log(self.disk, CONFIG)
        self.last: dict[int, int] = {}
        """The next sequence of each producer, the last one to write at the end."""

    def write(self, count: int) -> None:
        for _ in range(count):
            recent = self.chance.random() < 0.1 and list(self.last)[-50:]
            producer = self.chance.choice(recent) if recent else len(self.last)
            sequence = self.last.pop(producer, 0)
            self.append(producer, sequence)
            self.last[producer] = sequence + 1

    def append(self, producer: int, sequence: int) -> bool:
        """Returns whether the batch had been there before."""
        batch = make_batch(producer_id=producer, sequence=sequence, size=1)
        return self.log.append_as_leader(batch, 0, NOW_MS).duplicate

    def restart(self) -> None:
        close_cleanly(self.log)
        self.log = open_log(self.disk, CONFIG, clean=True)

    def crash(self) -> None:
        synced = self.log.recovery_point
        self.log.close()
        self.log = open_log(self.disk, CONFIG, recovery_point=synced)

    def check(self) -> None:
        check(self.log, self.last)
        producer, after = self.chance.choice(list(self.last.items())[-RECENT:])
        assert self.append(producer, after - 1), "sent again"


def check(log: PartitionLog, last: dict[int, int]) -> None:
    known = log.producers.producers
    assert len(known) <= MOST_PRODUCERS
    for producer, after in list(last.items())[-RECENT:]:
        assert known[producer].last_sequence == after - 1


@pytest.mark.parametrize("seed", [1, 2])
def test_who_has_written_lately_is_known_whatever_happens(seed: int) -> None:
    life = Life(seed)
    follower = open_log(new_disk(), CONFIG)
    life.write(MOST_PRODUCERS + 200)
    for step in (life.restart, life.crash, lambda: None):
        step()
        life.check()
        life.write(life.chance.randrange(100, 700))
        life.check()
    while (end := follower.log_end_offset) < life.log.log_end_offset:
        found = life.log.read(end, 60_000, life.log.log_end_offset)
        assert found is not None
        whole = [position + header.size for position, header in iter_headers(found.read())]
        follower.append_as_follower(memoryview(bytearray(found.read()[: whole[-1]])), NOW_MS)
    check(follower, life.last)

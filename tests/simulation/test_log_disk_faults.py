"""A disk that fails at any operation: the log goes offline and nothing is corrupted. One that fills
up: appends are refused until there is room, and nothing is lost.
"""

from __future__ import annotations

import contextlib
import errno
import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.log import PartitionLog
from moldau.log.recovery.opening import load_log
from moldau.model import TopicPartition
from moldau.records.batch import iter_headers, read_header
from moldau.records.builder import build_batch
from moldau.records.record import Record
from moldau.testing.disk import MemoryDisk

DIRECTORY = "/data/t-0"
NOW_MS = 1_700_000_000_000
CONFIG = TopicConfig(segment_bytes=900, index_interval_bytes=100)

steps = st.lists(
    st.sampled_from(["append", "append", "append", "roll", "flush", "read"]), max_size=25
)


def open_log(disk: MemoryDisk, *, clean: bool = False, recovery_point: int = 0) -> PartitionLog:
    return load_log(
        disk,
        DIRECTORY,
        TopicPartition("t", 0),
        CONFIG,
        now_ms=NOW_MS,
        clean=clean,
        recovery_point=recovery_point,
    )


def new_disk(seed: int) -> MemoryDisk:
    disk = MemoryDisk(random.Random(seed))
    disk.makedirs(DIRECTORY)
    disk.sync_dir("/")
    disk.sync_dir("/data")
    return disk


def content(log: PartitionLog) -> bytes:
    parts = []
    offset = log.log_start_offset
    while (found := log.read(offset, 10_000, log.log_end_offset)) is not None:
        parts.append(found.read())
        offset = [header.next_offset for _, header in iter_headers(parts[-1])][-1]
    return b"".join(parts)


class Run:
    """Appends and so on, remembering what was acknowledged."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.log = open_log(disk)
        self.acknowledged = b""
        self.refused = b""
        self.durable = 0
        self.sequence = 0

    def do(self, step: str) -> None:
        if step == "append":
            batch = build_batch(
                [Record(0, NOW_MS, None, bytes(self.sequence % 200))],
                producer_id=5,
                producer_epoch=0,
                base_sequence=self.sequence,
            )
            self.refused = b""
            try:
                self.log.append_as_leader(memoryview(batch), 0, NOW_MS)
            except KafkaError:
                self.refused = bytes(batch)
                raise
            self.acknowledged += bytes(batch)
            self.sequence += 1
        elif step == "roll":
            self.log.roll(NOW_MS)
        elif step == "flush":
            self.log.durability.flush(NOW_MS)
            self.durable = self.log.recovery_point
        else:
            with contextlib.suppress(OSError):  # the data itself is read by whoever sends it
                assert content(self.log) == self.acknowledged


@given(
    seed=st.integers(0, 2**32),
    steps=steps,
    after=st.integers(0, 60),
    error=st.sampled_from([errno.EIO, errno.EROFS]),
    lasting=st.booleans(),
    power_cut=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_a_failing_operation_takes_the_log_offline_and_loses_nothing(
    seed: int, steps: list[str], after: int, error: int, lasting: bool, power_cut: bool
) -> None:
    disk = new_disk(seed)
    run = Run(disk)
    disk.fail(error, after=after)
    failure = first_failure(run, steps)
    if failure is not None:
        assert failure.code is ErrorCode.KAFKA_STORAGE_ERROR
        if not lasting:
            disk.heal()
        with pytest.raises(KafkaError) as again:
            run.log.read(0, 100, 1)
        assert again.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.heal()
    run.log.close()
    if power_cut:
        disk = disk.power_cut()
    log = open_log(disk, recovery_point=run.durable)
    kept = content(log)
    assert log.log_end_offset >= run.durable
    if power_cut:
        assert (run.acknowledged + run.refused).startswith(kept)
    else:
        # A write that was refused may be there as a whole, as any request may be whose answer got
        # lost; half of it may not.
        assert kept in (run.acknowledged, run.acknowledged + run.refused)
    check_that_appends_continue(log)


def first_failure(run: Run, steps: Iterable[str]) -> KafkaError | None:
    for step in steps:
        try:
            run.do(step)
        except KafkaError as error:
            return error
    return None


def check_that_appends_continue(log: PartitionLog) -> None:
    end = log.log_end_offset
    batch = build_batch([Record(0, NOW_MS, b"k", b"v")])
    assert log.append_as_leader(memoryview(batch), 1, NOW_MS).first_offset == end
    found = log.read(end, 1000, end + 1)
    assert found is not None
    assert read_header(found.read()).base_offset == end


@given(
    seed=st.integers(0, 2**32),
    rooms=st.lists(st.integers(0, 700), min_size=1, max_size=6),
    steps=steps,
    end=st.sampled_from(["close", "crash", "power cut"]),
)
@settings(max_examples=60, deadline=None)
def test_a_full_disk_refuses_appends_until_there_is_room_and_loses_nothing(
    seed: int, rooms: list[int], steps: list[str], end: str
) -> None:
    disk = new_disk(seed)
    run = Run(disk)
    for room in rooms:
        disk.capacity = disk.usage("/").total - disk.usage("/").free + room
        fill_up(run, [*steps, *["append"] * 60])
        assert run.log.failure is None, "a full disk is no failed disk"
        assert content(run.log) == run.acknowledged, "what is there can be read"
        disk.capacity = None
        run.do("append")
    if end == "close":
        job = run.log.prepare_close()
        assert job is not None
        job.run()
    run.log.close()
    if end == "power cut":
        disk = disk.power_cut()
    log = open_log(disk, clean=end == "close", recovery_point=run.durable)
    assert log.log_end_offset >= run.durable
    if end != "power cut":
        assert content(log) == run.acknowledged
    check_that_appends_continue(log)


def fill_up(run: Run, steps: Iterable[str]) -> None:
    """Whatever does not fit is refused with Kafka's error, and something does not."""
    refused: set[ErrorCode] = set()
    for step in steps:
        try:
            run.do(step)
        except KafkaError as error:
            refused.add(error.code)
    assert refused == {ErrorCode.KAFKA_STORAGE_ERROR}


@given(seed=st.integers(0, 2**32), count=st.integers(1, 30), after=st.integers(0, 25))
@settings(max_examples=60, deadline=None)
def test_opening_fails_with_the_disk_and_succeeds_after_it(
    seed: int, count: int, after: int
) -> None:
    disk = new_disk(seed)
    run = Run(disk)
    for number in range(count):
        run.do("append")
        if number == count // 2:
            run.do("flush")
    run.log.close()
    disk.fail(errno.EIO, after=after)
    with contextlib.suppress(OSError):
        open_log(disk, recovery_point=run.durable).close()
    disk.heal()
    assert content(open_log(disk, recovery_point=run.durable)) == run.acknowledged

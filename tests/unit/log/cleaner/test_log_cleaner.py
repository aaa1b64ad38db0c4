"""The broker's side of compaction: what it does when things happen to logs and to cleaners."""

from __future__ import annotations

import asyncio
import errno
import random
from dataclasses import replace
from functools import partial
from uuid import uuid4

import msgspec
import pytest
from tests.support.machines import loop_machine
from tests.support.partition_log import NOW_MS, make_batch, read_batches

from moldau.config.values.broker import BrokerConfig
from moldau.config.values.topic import TopicConfig
from moldau.log import LogManager, PartitionLog
from moldau.log.cleaner.messages import CleanTask
from moldau.log.cleaner.process import WORKER
from moldau.log.cleaner.work import clean
from moldau.log.directory.log_directory import LogDirectory
from moldau.log.files.checkpoints import read_offsets
from moldau.log.files.names import CLEANER_OFFSET_CHECKPOINT
from moldau.model import TopicPartition
from moldau.records.batch import iter_headers
from moldau.testing.clock import ManualClock
from moldau.testing.disk import MemoryDisk
from moldau.testing.processes import LoopProcess, LoopProcesses

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
CONFIG = TopicConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=1000, file_delete_delay_ms=1000
)
BROKER = BrokerConfig(
    {"log.cleaner.backoff.ms": "1000", "log.cleaner.dedupe.buffer.size": "2000000"}
)
CHECKPOINT = f"/data/{CLEANER_OFFSET_CHECKPOINT}"


class ScriptedProcess(LoopProcess):
    """Cleans, but stops before each report until it may go on."""

    def __init__(self, script: ScriptedProcesses, process: LoopProcess) -> None:
        self._script = script
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def send(self, message: bytes) -> None:
        script = self._script
        task = msgspec.msgpack.decode(message, type=CleanTask)
        script.tasks.append(task)
        script.begun.set()
        if script.map_bytes is not None:
            task = msgspec.structs.replace(task, dedupe_buffer_bytes=script.map_bytes)
        await self._process.send(msgspec.msgpack.encode(task))
        if script.dies:
            self._process.kill()

    async def receive(self) -> bytes:
        report = await self._process.receive()
        await self._script.may_go_on.wait()
        return report

    def end_input(self) -> None:
        self._script.stopped += 1
        self._process.end_input()

    def kill(self) -> None:
        self._script.killed += 1
        self._process.kill()

    async def wait(self) -> int:
        return await self._process.wait()


class ScriptedProcesses(LoopProcesses):
    def __init__(self, disk: MemoryDisk, clock: ManualClock) -> None:
        super().__init__(clock, {WORKER: partial(clean, disk, clock)})
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.begun = asyncio.Event()
        self.dies = False
        self.map_bytes: int | None = None
        self.tasks: list[CleanTask] = []
        self.killed = 0
        self.stopped = 0

    async def start(self, module: str) -> LoopProcess:
        return ScriptedProcess(self, await super().start(module))


class Broker:
    def __init__(self) -> None:
        self.disk = MemoryDisk(random.Random(1))
        self.clock = ManualClock(NOW_MS)
        self.processes = ScriptedProcesses(self.disk, self.clock)

    async def start(self) -> None:
        self.disk.locks.clear()
        machine = loop_machine(self.disk, self.clock, self.processes)
        self.manager = LogManager(machine, ["/data"], BROKER)
        await self.manager.start(lambda _: CONFIG)
        self.manager.use_high_watermarks(
            dict, lambda partition: self.manager.logs[partition].log_end_offset
        )
        self.cleaner = self.manager.cleaner

    def fill(self, partition: TopicPartition, batches: int = 60) -> PartitionLog:
        log = self.manager.get_or_create(partition, uuid4(), CONFIG)
        for number in range(batches):
            key = b"%d" % (number % 3)
            log.append_as_leader(make_batch(key=key, size=20), 0, NOW_MS)
        return log

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for _ in range(200):
            await asyncio.sleep(0)

    def checkpoint(self) -> dict[TopicPartition, int]:
        return read_offsets(self.disk, CHECKPOINT)


@pytest.fixture
async def broker() -> Broker:
    broker = Broker()
    await broker.start()
    return broker


def count(log: PartitionLog) -> int:
    return sum(header.records_count for _, header in iter_headers(read_batches(log)))


async def test_logs_are_cleaned_in_the_background_and_checkpointed(broker: Broker) -> None:
    log, other = broker.fill(A), broker.fill(B, 30)
    end = log.segments[-1].base_offset
    await broker.advance(1.1)
    assert broker.checkpoint() == {A: end, B: other.segments[-1].base_offset}
    assert count(log) == 3 + log.log_end_offset - end
    assert len(broker.processes.tasks) == 2
    assert broker.processes.stopped == 1
    # Nothing is dirty: nothing is cleaned.
    await broker.advance(5)
    assert len(broker.processes.tasks) == 2


async def test_old_files_stay_for_a_while_and_readers_finish_on_them(broker: Broker) -> None:
    log = broker.fill(A)
    before = read_batches(log)
    slices = [log.read(segment.base_offset, 10_000, 10_000) for segment in log.segments]
    await broker.cleaner.clean_all()
    assert b"".join(one.read() for one in slices if one is not None) == before
    names = broker.disk.listdir(log.directory)
    assert any(name.endswith(".log.deleted") for name in names)
    await broker.advance(1.1)
    names = broker.disk.listdir(log.directory)
    assert not any(name.endswith(".deleted") for name in names)
    assert not any(name.endswith((".swap", ".cleaned")) for name in names)


async def test_after_a_start_cleaning_goes_on_where_it_ended(broker: Broker) -> None:
    broker.fill(A)
    await broker.cleaner.clean_all()
    end = broker.checkpoint()[A]
    await broker.manager.shutdown()
    await broker.start()
    await broker.cleaner.clean_all()
    assert len(broker.processes.tasks) == 1
    broker.manager.get_or_create(A, broker.manager.logs[A].topic_id, CONFIG)
    for _ in range(60):
        broker.manager.logs[A].append_as_leader(make_batch(size=20), 0, NOW_MS)
    await broker.cleaner.clean_all()
    assert broker.processes.tasks[-1].first_dirty_offset == end


async def test_a_log_that_is_truncated_is_not_swapped_over(broker: Broker) -> None:
    log = broker.fill(A)
    broker.processes.may_go_on.clear()
    cleaning = asyncio.create_task(broker.cleaner.clean_all())
    await broker.processes.begun.wait()
    assert await broker.manager.truncate_to(log, 20)
    broker.processes.may_go_on.set()
    await cleaning
    assert broker.processes.killed
    assert log.failure is None
    # What is left of the log is cleaned by itself.
    assert len(broker.processes.tasks) == 2
    assert broker.processes.tasks[1].first_uncleanable_offset < 20
    offsets = [header.base_offset for _, header in iter_headers(read_batches(log))]
    assert offsets[-3:] == [17, 18, 19]


async def test_the_checkpoint_follows_a_truncation(broker: Broker) -> None:
    log = broker.fill(A)
    await broker.cleaner.clean_all()
    assert broker.checkpoint()[A] > 20
    await broker.manager.truncate_to(log, 20)
    assert broker.checkpoint()[A] == log.log_end_offset <= 20


async def test_a_deleted_partition_is_forgotten(broker: Broker) -> None:
    broker.fill(A)
    await broker.cleaner.clean_all()
    broker.manager.delete(A)
    await broker.advance(0)
    assert broker.checkpoint() == {}
    log = broker.fill(A, 3)
    await broker.cleaner.clean_all()
    assert count(log) == 3


async def test_a_partition_may_be_deleted_while_it_is_cleaned(broker: Broker) -> None:
    broker.fill(A)
    broker.processes.may_go_on.clear()
    cleaning = asyncio.create_task(broker.cleaner.clean_all())
    await broker.processes.begun.wait()
    broker.manager.delete(A)
    again = broker.fill(A, 40)
    broker.processes.may_go_on.set()
    await cleaning
    assert count(again) <= 40
    assert broker.cleaner.uncleanable == {}
    assert again.failure is None


async def test_retention_waits_for_a_swap(broker: Broker) -> None:
    log = broker.fill(A)
    old = log.segments[:2]
    log.closed_segments.begin_replacing(old)
    log.increment_log_start_offset(log.segments[1].base_offset)
    assert log.segments[:2] == old
    assert log.log_start_offset == old[1].base_offset
    log.closed_segments.being_replaced = False
    assert log.closed_segments.remove_before(log.log_start_offset) == 1


async def test_a_damaged_log_is_set_aside_and_the_others_are_cleaned(broker: Broker) -> None:
    broken, log = broker.fill(A, 80), broker.fill(B)
    file = broker.disk.open(f"{broken.directory}/{0:020d}.log")
    data = bytearray(file.pread(file.size, 0))
    data[200] ^= 1
    broker.disk.write(file.path, bytes(data))
    await broker.cleaner.clean_all()
    assert "damaged" in broker.cleaner.uncleanable[A].reason
    assert broker.cleaner.uncleanable_bytes == broken.size
    assert broker.checkpoint() == {B: log.segments[-1].base_offset}
    assert broken.failure is None
    assert not [name for name in broker.disk.listdir(broken.directory) if "cleaned" in name]
    broker.manager.delete(A)
    await broker.cleaner.clean_all()
    assert broker.cleaner.uncleanable == {}


async def test_a_cleaner_that_dies_is_tried_again_later_and_ever_later(broker: Broker) -> None:
    log = broker.fill(A)
    broker.processes.dies = True
    await broker.advance(1.1)
    assert len(broker.processes.tasks) == 1
    await broker.advance(1.1)
    assert len(broker.processes.tasks) == 2
    await broker.advance(1.1)
    assert len(broker.processes.tasks) == 2  # two seconds this time
    broker.processes.dies = False
    await broker.advance(1.1)
    assert count(log) < 60
    assert broker.cleaner.uncleanable == {}


async def test_a_full_disk_puts_cleaning_off(broker: Broker) -> None:
    log = broker.fill(A)
    await broker.manager.flush(log)
    await broker.manager.checkpoint()
    broker.disk.fail(errno.ENOSPC, operations=frozenset({"append"}))
    await broker.cleaner.clean_all()
    broker.disk.heal()
    assert (log.failure, broker.cleaner.uncleanable) == (None, {})
    assert broker.checkpoint() == {}
    await broker.advance(1.1)
    assert broker.checkpoint() == {A: log.segments[-1].base_offset}


async def test_a_lack_of_descriptors_puts_cleaning_off(broker: Broker) -> None:
    log = broker.fill(A)
    await broker.manager.flush(log)
    await broker.manager.checkpoint()
    broker.disk.fail(errno.EMFILE, operations=frozenset({"sync_dir"}))
    await broker.cleaner.clean_all()
    broker.disk.heal()
    assert (log.failure, broker.cleaner.uncleanable) == (None, {})
    assert count(log) == 60
    await broker.advance(2.2)
    assert count(log) < 60


async def test_room_on_a_disk_that_was_full_for_long_is_noticed_soon(broker: Broker) -> None:
    log = broker.fill(A)
    await broker.manager.flush(log)
    await broker.manager.checkpoint()
    broker.disk.fail(errno.ENOSPC, operations=frozenset({"append"}))
    for _ in range(300):
        await broker.advance(1.1)
    broker.disk.heal()
    for _ in range(17):  # sixteen times the back-off, and what it takes to look
        await broker.advance(1.1)
    assert broker.checkpoint() == {A: log.segments[-1].base_offset}


async def test_topics_that_are_not_compacted_are_left_alone(broker: Broker) -> None:
    log = broker.fill(A)
    log.config = TopicConfig(cleanup_policy=frozenset({"delete"}), segment_bytes=1000)
    await broker.cleaner.clean_all()
    assert broker.processes.tasks == []
    log.config = TopicConfig(cleanup_policy=frozenset({"compact", "delete"}), segment_bytes=1000)
    await broker.cleaner.clean_all()
    assert len(broker.processes.tasks) == 1


async def test_a_map_that_is_too_small_cleans_what_it_can(broker: Broker) -> None:
    config = replace(CONFIG, min_cleanable_dirty_ratio=0.01)
    log = broker.manager.get_or_create(A, uuid4(), config)
    for number in range(80):
        log.append_as_leader(make_batch(key=b"%d" % (number % 30), size=20), 0, NOW_MS)
    broker.processes.map_bytes = 24 * 12
    await broker.cleaner.clean_all()
    end = log.segments[-1].base_offset
    assert broker.checkpoint()[A] == end
    assert len(broker.processes.tasks) > 2
    headers = [header for _, header in iter_headers(read_batches(log))]
    assert sum(h.records_count for h in headers if h.base_offset < end) == 30


async def test_a_log_that_moves_is_as_clean_where_it_goes(broker: Broker) -> None:
    log = broker.fill(A)
    await broker.cleaner.clean_all()
    end = broker.checkpoint()[A]
    broker.disk.makedirs("/other")
    broker.cleaner.moved(log, "/other")
    broker.cleaner.forget(log, LogDirectory(broker.disk, "/data"))
    await broker.advance(0)
    assert broker.checkpoint() == {}
    assert read_offsets(broker.disk, f"/other/{CLEANER_OFFSET_CHECKPOINT}") == {A: end}


async def test_nothing_is_swapped_in_without_its_recovery_point_on_disk(broker: Broker) -> None:
    log = broker.fill(A)
    broker.disk.fail(errno.ENOSPC, operations=frozenset({"write"}))
    await broker.cleaner.clean_all()
    broker.disk.heal()
    assert broker.processes.tasks == []
    assert (count(log), log.failure) == (60, None)
    await broker.advance(1.1)
    assert count(log) < 60

"""A replica that moves between directories, with a crash at every single file operation: after the
restart there is one log, and it has everything that was acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import random

import pytest
from tests.support.log_manager import A0, TOPIC_ID, Broker, settle
from tests.support.partition_log import NOW_MS, make_batch, read_batches

from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.log import LogManager, PartitionLog
from moldau.testing.disk import MemoryDisk

DIRS = ("/d1", "/d2")
CONFIG = TopicConfig(segment_bytes=1000, file_delete_delay_ms=1000)


class Run:
    """Appends, flushes and a move there (and back), until the disk refuses."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.broker = Broker(disk, DIRS, CONFIG)
        self.acknowledged = b""
        self.durable = 0
        self.manager: LogManager

    async def prepare(self) -> None:
        self.manager = await self.broker.start()
        self.manager.get_or_create(A0, TOPIC_ID, CONFIG)
        for _ in range(25):
            self.append()
        await self.flush()
        await self.manager.checkpoint()
        self.append()

    @property
    def log(self) -> PartitionLog:
        log = self.manager.get(A0)
        if log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return log

    def append(self) -> None:
        batch = make_batch(size=60)
        self.log.append_as_leader(batch, 0, NOW_MS)
        self.acknowledged += bytes(batch)

    async def flush(self) -> None:
        log = self.log
        size, end = len(self.acknowledged), log.log_end_offset
        await self.manager.flush(log)
        assert self.log.recovery_point >= end
        self.durable = max(self.durable, size)

    async def move(self, path: str) -> None:
        old = self.log
        await self.manager.alter_replica_dir(A0, path)
        turns = 0
        while old.replaced_by is None:
            turns += 1
            assert turns < 1000
            if turns % 5 == 0:
                self.append()
            if turns % 20 == 0:
                await self.flush()
            await asyncio.sleep(0)
            if any(info.failure for info in self.manager.describe_dirs()):
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        await self.flush()
        self.append()
        await settle()

    async def go(self) -> None:
        await self.move("/d2")
        await self.broker.clock.advance(2)
        self.append()
        await self.move("/d1")
        await settle()


async def kill_everything() -> None:
    """Nothing of the process that crashed may go on working."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def count_operations() -> int:
    disk = MemoryDisk(random.Random(1))
    run = Run(disk)
    await run.prepare()
    before = sum(disk.operations.values())
    await run.go()
    assert read_batches(run.manager.logs[A0]) == run.acknowledged
    return sum(disk.operations.values()) - before


@pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power-cut"])
async def test_a_crash_at_any_operation_leaves_one_complete_log(power_cut: bool) -> None:
    total = await count_operations()
    assert total > 100
    for after in range(total):
        disk = MemoryDisk(random.Random(after))
        run = Run(disk)
        await run.prepare()
        disk.fail(errno.EIO, after=after)
        with contextlib.suppress(KafkaError):
            await run.go()
        await kill_everything()
        disk.heal()
        disk.locks.clear()
        again = Broker(disk.power_cut() if power_cut else disk, DIRS, CONFIG)
        manager = await again.start()
        log = manager.logs[A0]
        kept = read_batches(log)
        if power_cut:
            assert len(kept) >= run.durable, f"crash after {after} operations"
            assert run.acknowledged.startswith(kept)
        else:
            assert kept == run.acknowledged, f"crash after {after} operations"
        # What was interrupted goes on, and the log is used on.
        end = log.log_end_offset
        await again.clock.advance(4)
        log = manager.logs[A0]
        assert log.log_end_offset == end
        assert read_batches(log) == kept
        log.append_as_leader(make_batch(), 0, NOW_MS)
        homes = [path for path in DIRS if again.disk.is_dir(f"{path}/a-0")]
        assert len(homes) == 1
        marked = [name for path in DIRS for name in again.disk.listdir(path) if "a-0." in name]
        assert marked == []
        await manager.shutdown()

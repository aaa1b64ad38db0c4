"""The cleaner as a process: the same result as in place, and what happens when it does not work."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from pathlib import Path

import msgspec
import pytest
from tests.support.partition_log import NOW_MS, PARTITION, make_batch

from moldau.config.values.broker import BrokerConfig
from moldau.config.values.topic import TopicConfig
from moldau.log import PartitionLog
from moldau.log.cleaner.cleanable import find_cleanable
from moldau.log.cleaner.messages import CleanDone, CleanFailed, CleanTask, GroupCleaned
from moldau.log.cleaner.process import WORKER, CleanerDiedError, CleanerProcess
from moldau.log.cleaner.tasks import make_task
from moldau.log.cleaner.work import Pace, clean
from moldau.log.recovery.opening import load_log
from moldau.machine import Pause
from moldau.machine.real.disk import OsDisk
from moldau.machine.real.processes import OsProcesses
from moldau.testing.clock import ManualClock
from moldau.testing.processes import LoopProcesses


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    config = TopicConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=10_000)
    log = load_log(OsDisk(), str(tmp_path), PARTITION, config, now_ms=NOW_MS, clean=True)
    for number in range(300):
        batch = make_batch(
            3, key=b"%d" % (number % 40), size=100, producer_id=5, sequence=3 * number
        )
        log.append_as_leader(batch, 0, NOW_MS)
    return log


@pytest.fixture
def task(log: PartitionLog) -> CleanTask:
    cleanable = find_cleanable(log, None, log.log_end_offset, NOW_MS)
    return make_task(cleanable, BrokerConfig({}), 1, NOW_MS)


def in_loop() -> LoopProcesses:
    clock = ManualClock()
    return LoopProcesses(clock, {WORKER: partial(clean, OsDisk(), clock)})


def cleaned_files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.cleaned")}


async def run(
    process: CleanerProcess, task: CleanTask
) -> list[GroupCleaned | CleanDone | CleanFailed]:
    return [report async for report in process.run(task)]


async def test_it_does_what_is_done_in_place(task: CleanTask, tmp_path: Path) -> None:
    expected = await run(CleanerProcess(in_loop()), task)
    files = cleaned_files(tmp_path)
    assert len(files) >= 3
    process = CleanerProcess(OsProcesses())
    try:
        assert await run(process, task) == expected
        assert cleaned_files(tmp_path) == files
        pid = process.pid
        assert await run(process, task) == expected
        assert process.pid == pid
    finally:
        await process.stop()
    assert process.pid is None


async def test_damage_and_missing_files_are_told_apart(task: CleanTask, tmp_path: Path) -> None:
    process = CleanerProcess(OsProcesses())
    try:
        first = tmp_path / f"{0:020d}.log"
        data = bytearray(first.read_bytes())
        data[300] ^= 1
        first.write_bytes(data)
        (failed,) = await run(process, task)
        assert isinstance(failed, CleanFailed)
        assert failed.corrupt
        first.unlink()
        (failed,) = await run(process, task)
        assert isinstance(failed, CleanFailed)
        assert not failed.corrupt
    finally:
        await process.stop()


def slow(task: CleanTask) -> CleanTask:
    return msgspec.structs.replace(task, max_bytes_per_second=1000.0)


async def running(process: CleanerProcess) -> int:
    while process.pid is None:  # noqa: ASYNC110 (a process has no event for it)
        await asyncio.sleep(0.01)
    return process.pid


async def test_a_killed_process_is_an_error_and_the_next_task_starts_another(
    task: CleanTask,
) -> None:
    process = CleanerProcess(OsProcesses())
    try:
        cleaning = asyncio.create_task(run(process, slow(task)))
        os.kill(await running(process), signal.SIGKILL)
        with pytest.raises(CleanerDiedError, match="-9"):
            await cleaning
        reports = await run(process, task)
        assert isinstance(reports[-1], CleanDone)
    finally:
        await process.stop()


async def test_a_stuck_process_is_killed(task: CleanTask) -> None:
    process = CleanerProcess(OsProcesses(), silence_s=0.5)
    try:
        cleaning = asyncio.create_task(run(process, slow(task)))
        pid = await running(process)
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(CleanerDiedError, match="-9"):
            await cleaning
        assert process.pid is None
    finally:
        await process.stop()


async def test_it_ends_in_the_middle_of_its_work_when_the_broker_lets_go(task: CleanTask) -> None:
    # Its interpreter may just have begun to start, which takes long where others compute too.
    process = CleanerProcess(OsProcesses(), stop_s=120)
    cleaning = asyncio.create_task(run(process, slow(task)))
    await running(process)
    await process.stop()
    with pytest.raises(CleanerDiedError, match="ended with 0"):
        await cleaning


def test_the_pace_is_what_the_setting_says() -> None:
    clock = ManualClock()
    pace = Pace(1_000_000.0, clock)
    reports = b""
    for _ in range(500):
        for step in pace.steps() if pace.is_due(10_000) else ():
            if isinstance(step, Pause):
                assert step.seconds > 0
                clock.advance(step.seconds)
            else:
                reports += step
    # Five megabytes, but for what is not looked at yet.
    assert 4.8 < clock.monotonic() <= 5.0
    assert reports.count(b"Progress") == 4


def test_without_a_limit_nothing_pauses() -> None:
    pace = Pace(float("inf"), ManualClock())
    for _ in range(100):
        assert pace.is_due(10**9)
        assert list(pace.steps()) == []


async def test_on_the_loop_a_task_takes_the_time_it_should(task: CleanTask) -> None:
    """A simulated cleaner pauses by the clock it is given, and can be killed meanwhile."""
    clock = ManualClock()
    processes = LoopProcesses(clock, {WORKER: partial(clean, OsDisk(), clock)})
    process = CleanerProcess(processes)
    cleaning = asyncio.create_task(run(process, slow(task)))
    seconds = 0
    while not cleaning.done():
        for _ in range(50):
            await asyncio.sleep(0)
        clock.advance(1.0)
        seconds += 1
    size = sum(segment.size for segment in task.segments)
    assert size / 1000 < seconds  # every byte is read twice, and some are written
    cleaning = asyncio.create_task(run(process, slow(task)))
    for _ in range(50):
        await asyncio.sleep(0)
    process.kill()
    with pytest.raises(CleanerDiedError, match="-9"):
        await cleaning
    await process.stop()

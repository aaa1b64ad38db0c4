"""The periodic look at all logs: when it comes, what it leaves alone, that it holds nobody up."""

from __future__ import annotations

import asyncio
import errno
import random

import pytest
from tests.support.log_manager import A0, B0, TOPIC_ID, Broker, settle
from tests.support.logs import records_of
from tests.support.partition_log import NOW_MS, fill, make_batch

from moldau.config.values.broker import BrokerConfig
from moldau.config.values.topic import TopicConfig
from moldau.log import LogManager, PartitionLog
from moldau.model import TopicPartition
from moldau.testing.disk import MemoryDisk

CONFIG = TopicConfig(segment_bytes=1000, retention_ms=10_000, file_delete_delay_ms=60_000)
CHECK = {"log.retention.check.interval.ms": "5000", "log.initial.task.delay.ms": "1000"}


@pytest.fixture
async def broker() -> Broker:
    broker = Broker(MemoryDisk(random.Random(3)))
    broker.config = BrokerConfig.load({"node.id": "1", **CHECK})
    await start(broker)
    return broker


async def start(broker: Broker) -> LogManager:
    manager = await broker.start()

    def high_watermark(topic_partition: TopicPartition) -> int | None:
        log = manager.get(topic_partition)
        return None if log is None else log.log_end_offset

    manager.use_high_watermarks(dict, high_watermark)
    return manager


def create(broker: Broker, topic_partition: TopicPartition = A0) -> PartitionLog:
    return broker.manager.get_or_create(topic_partition, TOPIC_ID, CONFIG)


def names(broker: Broker, ending: str) -> list[str]:
    return [name for name in broker.disk.listdir("/d1/a-0") if name.endswith(ending)]


async def test_old_segments_go_at_the_next_check_and_their_files_later(broker: Broker) -> None:
    log = create(broker)
    fill(log, 30)
    size = log.size
    await broker.clock.advance(10)  # checks at 1 and 6 s find nothing
    assert log.log_start_offset == 0
    await broker.clock.advance(2)  # at 11 s the records, of time 0, are too old
    assert log.log_start_offset == log.log_end_offset == 30
    assert log.size == 0 < size
    (info,) = broker.manager.describe_dirs()
    assert info.replicas[0].size == 0
    assert names(broker, ".deleted")
    await broker.clock.advance(58)
    assert names(broker, ".deleted")
    await broker.clock.advance(2)
    assert not names(broker, ".deleted")
    assert len(names(broker, ".log")) == 1


@pytest.mark.parametrize(("days", "spared"), [(0.9, False), (2, True)])
async def test_after_a_long_time_away_the_first_check_deletes_nothing(
    broker: Broker, caplog: pytest.LogCaptureFixture, days: float, spared: bool
) -> None:
    """The clock may be wrong since the machine started, when nobody sees it jump."""
    log = create(broker)
    fill(log, 30)
    assert isinstance(broker.disk, MemoryDisk)
    broker.disk.now_ms = broker.clock.now_ms()
    await broker.manager.shutdown()
    broker.clock.ahead_ms = int(days * 86_400_000)
    await start(broker)
    log = broker.manager.logs[A0]
    log.config = CONFIG
    await broker.clock.advance(2)  # the first check is after 1 s
    assert (log.log_start_offset == 0) == spared
    assert ("nothing was written here for 2.0 days" in caplog.text) == spared
    await broker.clock.advance(5)
    assert log.log_start_offset == 30


async def test_a_changed_setting_holds_at_the_next_check(broker: Broker) -> None:
    log = create(broker)
    fill(log, 30)
    log.config = TopicConfig(segment_bytes=1000, retention_bytes=1000, retention_ms=-1)
    await broker.clock.advance(1)
    assert 0 < log.log_start_offset < 30
    assert 1000 <= log.size < 2000


async def test_a_partition_that_is_not_served_is_left_alone(broker: Broker) -> None:
    served, other = create(broker), create(broker, B0)
    fill(served, 30)
    fill(other, 30)
    broker.manager.use_high_watermarks(dict, lambda partition: 30 if partition == A0 else None)
    await broker.clock.advance(20)
    assert served.log_start_offset == 30
    assert other.log_start_offset == 0


async def test_one_failing_log_does_not_keep_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = Broker(MemoryDisk(random.Random(3)), ("/d1", "/d2"))
    broker.config = BrokerConfig.load({"node.id": "1", **CHECK})
    await start(broker)
    first, second = create(broker), create(broker, B0)
    fill(first, 30)
    fill(second, 30)
    await settle()  # the flushes that rolling asked for are done
    assert isinstance(broker.disk, MemoryDisk)
    broker.disk.fail(errno.EIO, operations=frozenset({"rename"}))
    first.config = TopicConfig(segment_bytes=1000, retention_ms=0)
    await broker.clock.advance(1)
    assert first.failure is not None
    broker.disk.heal()
    await broker.clock.advance(15)
    assert second.failure is None
    assert second.log_start_offset == 30
    assert "retention of a-0" in caplog.text


async def test_the_first_check_after_a_restart_reads_what_it_has_to(broker: Broker) -> None:
    log = create(broker)
    fill(log, 30)
    await broker.manager.shutdown()
    manager = await start(broker)
    again = manager.get(A0)
    assert again is not None
    again.config = CONFIG
    await broker.clock.advance(30)
    assert again.log_start_offset == again.log_end_offset == 30


async def test_the_check_takes_turns(broker: Broker) -> None:
    """Between any two turns of the loop only so many logs and segments are dealt with."""
    logs = [create(broker, TopicPartition("t", number)) for number in range(100)]
    for log in logs:
        log.append_as_leader(make_batch(timestamps=[NOW_MS - 60_000]), 0, NOW_MS)
    many = create(broker)
    for _ in range(1000):
        many.append_as_leader(make_batch(timestamps=[NOW_MS - 60_000], size=700), 0, NOW_MS)
    assert len(many.segments) == 1000

    def progress() -> int:
        return sum(log.log_start_offset for log in logs) + many.log_start_offset

    steps = []
    work = asyncio.create_task(broker.manager._retention.run())
    while not work.done():
        before = progress()
        await asyncio.sleep(0)
        steps.append(progress() - before)
    assert progress() == 1100
    assert max(steps) <= 16
    await settle()


async def test_a_topic_deleted_amid_a_check_is_no_error(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    logs = [create(broker, TopicPartition("t", number)) for number in range(50)]
    for log in logs:
        fill(log, 3)
    broker.clock._now += 100
    work = asyncio.create_task(broker.manager._retention.run())
    await asyncio.sleep(0)
    for number in range(25, 50):
        broker.manager.delete(TopicPartition("t", number))
    await work
    assert all(log.log_start_offset == 3 for log in logs[:25])
    assert not records_of(caplog, "moldau.log")


DAY_MS = 86_400_000


async def test_one_check_is_skipped_when_the_clock_jumps_ahead(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    log = create(broker)
    fill(log, 30)
    await broker.clock.advance(2)
    broker.clock.ahead_ms = 10 * DAY_MS
    await broker.clock.advance(5)  # the check at 6 s
    assert log.log_start_offset == 0
    assert "jumped ahead by 864000 s" in caplog.text
    await broker.clock.advance(5)  # by the one at 11 s nobody has put the clock right
    assert log.log_start_offset == 30


async def test_a_clock_that_is_put_right_before_the_next_check_costs_nothing(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    log = create(broker)
    fill(log, 30)
    await broker.clock.advance(2)
    broker.clock.ahead_ms = 10 * DAY_MS
    await broker.clock.advance(5)
    broker.clock.ahead_ms = 0
    await broker.clock.advance(3)
    assert log.log_start_offset == 0
    assert "jumped back by 864000 s" not in caplog.text
    await broker.clock.advance(2)  # at 11 s the records, of time 0, are too old by any clock
    assert "jumped back by 864000 s" in caplog.text
    assert log.log_start_offset == 0, "but is it the last jump?"
    await broker.clock.advance(5)
    assert log.log_start_offset == 30


async def test_a_jump_back_may_leave_the_clock_ahead(broker: Broker) -> None:
    log = create(broker)
    fill(log, 30)
    await broker.clock.advance(2)
    for ahead in (20, 10, 0):  # each seen by one check
        broker.clock.ahead_ms = ahead * DAY_MS
        await broker.clock.advance(5)
        assert log.log_start_offset == 0

"""Replicas that move between log directories while they are read and written."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.support.log_manager import A0, A1, CONFIG, TOPIC_ID, Broker, settle
from tests.support.partition_log import NOW_MS, fill, make_batch, read_batches, read_values

from moldau.config.values.broker import BrokerConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.log import LogManager, PartitionLog
from moldau.log.files.checkpoints import read_offsets
from moldau.testing.disk import MemoryDisk

SLOW = {"replica.alter.log.dirs.io.max.bytes.per.second": "4096"}


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk(random.Random(3))


@pytest.fixture
async def broker(disk: MemoryDisk) -> Broker:
    broker = Broker(disk, ("/d1", "/d2", "/d3"))
    await broker.start()
    return broker


def create(broker: Broker, batches: int = 30) -> PartitionLog:
    """A log of several segments in the first directory."""
    log = broker.manager.get_or_create(A0, TOPIC_ID, CONFIG)
    assert log.directory == "/d1/a-0"
    fill(log, batches)
    return log


def slow_down(broker: Broker) -> None:
    broker.config = BrokerConfig.load({"node.id": "1", **SLOW})
    broker.manager.reconfigure(broker.config)


async def until(condition: Callable[[], object]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


async def moved(manager: LogManager, old: PartitionLog) -> PartitionLog:
    """The log that has taken the old one's place, once nothing is left to do."""
    await until(lambda: old.replaced_by is not None)
    await settle()
    new = manager.logs[A0]
    assert old.replaced_by is new
    return new


def names(disk: MemoryDisk, directory: str, mark: str = "") -> list[str]:
    return [name for name in disk.listdir(directory) if name.startswith("a-0") and mark in name]


async def test_a_moved_log_has_the_same_batches_in_the_other_directory(
    broker: Broker, disk: MemoryDisk
) -> None:
    old = create(broker)
    wanted = read_batches(old)
    bases = [segment.base_offset for segment in old.segments]
    replaced: list[PartitionLog] = []
    broker.manager.on_replaced = replaced.append
    await broker.manager.alter_replica_dir(A0, "/d2")
    new = await moved(broker.manager, old)
    assert replaced == [new]
    assert new.directory == "/d2/a-0"
    assert read_batches(new) == wanted
    assert [segment.base_offset for segment in new.segments] == bases
    assert new.topic_id == TOPIC_ID
    assert new.leader_epochs.entries == old.leader_epochs.entries
    fill(new, 5)
    assert new.log_end_offset == 35
    with pytest.raises(KafkaError) as error:
        fill(old, 1)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert names(disk, "/d1") == names(disk, "/d1", "-delete")
    await broker.clock.advance(61)
    assert names(disk, "/d1") == []
    assert not disk.exists("/d2/replaced-logs.json")


async def test_a_moved_log_is_found_after_a_restart(broker: Broker, disk: MemoryDisk) -> None:
    old = create(broker)
    wanted = read_batches(old)
    await broker.manager.alter_replica_dir(A0, "/d2")
    await moved(broker.manager, old)
    assert A0 in read_offsets(disk, "/d2/recovery-point-offset-checkpoint")
    assert A0 not in read_offsets(disk, "/d1/recovery-point-offset-checkpoint")
    await broker.manager.shutdown()
    manager = await broker.start()
    assert manager.logs[A0].directory == "/d2/a-0"
    assert read_batches(manager.logs[A0]) == wanted


async def test_appends_and_reads_go_on_during_a_move(broker: Broker) -> None:
    log = create(broker)
    slow_down(broker)
    await broker.manager.alter_replica_dir(A0, "/d2")
    appended = 30
    while log.replaced_by is None:
        current = broker.manager.logs[A0]
        info = current.append_as_leader(make_batch(size=40), 0, NOW_MS)
        assert info.first_offset == appended
        appended += 1
        assert len(read_values(current)) == appended
        await broker.clock.advance(0.1)
        assert appended < 1000
    assert appended > 31
    fill(broker.manager.logs[A0], 1)
    assert broker.manager.logs[A0].log_end_offset == appended + 1


async def test_a_move_shows_as_a_future_replica_with_its_lag(broker: Broker) -> None:
    create(broker, 200)
    slow_down(broker)
    await broker.manager.alter_replica_dir(A0, "/d2")
    await settle()
    shown = {info.path: info.replicas for info in broker.manager.describe_dirs()}
    (current,), (future,) = shown["/d1"], shown["/d2"]
    assert current.future_lag is None
    assert future.topic_partition == A0
    assert future.future_lag == 200 - future.log_end_offset
    assert 0 < future.log_end_offset < 200
    assert future.size < current.size
    await broker.clock.advance(100)
    shown = {info.path: info.replicas for info in broker.manager.describe_dirs()}
    assert shown["/d1"] == []
    assert [one.future_lag for one in shown["/d2"]] == [None]


async def test_the_pace_follows_the_setting_while_it_runs(broker: Broker) -> None:
    log = create(broker, 200)
    slow_down(broker)
    await broker.manager.alter_replica_dir(A0, "/d2")
    await broker.clock.advance(1)
    lag = broker.manager.describe_dirs()[1].replicas[0].future_lag
    broker.manager.reconfigure(
        BrokerConfig.load({"node.id": "1", "replica.alter.log.dirs.io.max.bytes.per.second": "0"})
    )
    await broker.clock.advance(20)
    stopped = broker.manager.describe_dirs()[1].replicas[0].future_lag
    assert stopped is not None
    assert lag is not None
    assert 0 < stopped <= lag
    assert log.replaced_by is None
    broker.manager.reconfigure(BrokerConfig.load({"node.id": "1"}))
    await broker.clock.advance(2)
    assert broker.manager.logs[A0].directory == "/d2/a-0"


async def test_a_move_back_cancels(broker: Broker, disk: MemoryDisk) -> None:
    log = create(broker, 200)
    slow_down(broker)
    await broker.manager.alter_replica_dir(A0, "/d2")
    await settle()
    assert names(disk, "/d2", "-future")
    await broker.manager.alter_replica_dir(A0, "/d1")
    await settle()
    assert names(disk, "/d2") == names(disk, "/d2", "-delete")
    assert broker.manager.describe_dirs()[1].replicas == []
    await broker.clock.advance(100)
    assert names(disk, "/d2") == []
    assert broker.manager.logs[A0] is log


async def test_a_move_elsewhere_replaces_the_one_under_way(
    broker: Broker, disk: MemoryDisk
) -> None:
    log = create(broker, 200)
    wanted = read_batches(log)
    slow_down(broker)
    await broker.manager.alter_replica_dir(A0, "/d2")
    await settle()
    await broker.manager.alter_replica_dir(A0, "/d3")
    await broker.clock.advance(200)
    assert broker.manager.logs[A0].directory == "/d3/a-0"
    assert read_batches(broker.manager.logs[A0]) == wanted
    assert names(disk, "/d1") == names(disk, "/d2") == []


async def test_there_and_back_again(broker: Broker, disk: MemoryDisk) -> None:
    wanted = read_batches(create(broker))
    for path in ("/d2", "/d1", "/d3", "/d1"):
        old = broker.manager.logs[A0]
        await broker.manager.alter_replica_dir(A0, path)
        new = await moved(broker.manager, old)
        assert new.directory == f"{path}/a-0"
        assert read_batches(new) == wanted
    await broker.clock.advance(100)
    assert [names(disk, path) for path in ("/d1", "/d2", "/d3")] == [["a-0"], [], []]


async def test_what_retention_takes_meanwhile_is_not_copied(broker: Broker) -> None:
    log = create(broker, 200)
    slow_down(broker)
    await broker.manager.alter_replica_dir(A0, "/d2")
    await broker.clock.advance(1)
    log.increment_log_start_offset(151)
    await broker.clock.advance(100)
    new = broker.manager.logs[A0]
    assert new is not log
    assert (new.log_start_offset, new.log_end_offset) == (151, 200)
    assert len(read_values(new)) == 49


async def test_a_log_that_starts_inside_a_batch_still_does(broker: Broker) -> None:
    log = broker.manager.get_or_create(A0, TOPIC_ID, CONFIG)
    fill(log, 6, count=5)
    log.increment_log_start_offset(7)
    await broker.manager.alter_replica_dir(A0, "/d2")
    new = await moved(broker.manager, log)
    assert (new.log_start_offset, new.log_end_offset) == (7, 30)
    await broker.manager.shutdown()
    manager = await broker.start()
    assert manager.logs[A0].log_start_offset == 7


async def test_a_compacted_log_keeps_its_start(broker: Broker) -> None:
    log = broker.manager.get_or_create(A0, TOPIC_ID, CONFIG)
    log.append_as_follower(make_batch(base_offset=40, leader_epoch=0), NOW_MS)
    await broker.manager.alter_replica_dir(A0, "/d2")
    new = await moved(broker.manager, log)
    assert (new.log_start_offset, new.log_end_offset) == (0, 41)
    await broker.manager.shutdown()
    manager = await broker.start()
    assert manager.logs[A0].log_start_offset == 0


async def test_a_truncation_reaches_the_copy(broker: Broker) -> None:
    log = create(broker, 200)
    slow_down(broker)
    await broker.manager.alter_replica_dir(A0, "/d2")
    await broker.clock.advance(2)
    copied = broker.manager.describe_dirs()[1].replicas[0].log_end_offset
    assert copied > 20
    await broker.manager.truncate_to(log, 20)
    for _ in range(40):
        log.append_as_leader(make_batch(size=30, key=b"other"), 1, NOW_MS)
    wanted = read_batches(log)
    await broker.clock.advance(100)
    new = broker.manager.logs[A0]
    assert new is not log
    assert read_batches(new) == wanted
    assert new.leader_epochs.latest_epoch == 1


async def test_producers_whose_batches_are_gone_are_still_known(broker: Broker) -> None:
    log = broker.manager.get_or_create(A0, TOPIC_ID, CONFIG)
    batch = bytes(make_batch(producer_id=5, sequence=0))
    log.append_as_leader(memoryview(bytearray(batch)), 0, NOW_MS)
    fill(log, 30)
    log.increment_log_start_offset(20)
    await broker.manager.alter_replica_dir(A0, "/d2")
    new = await moved(broker.manager, log)
    assert new.append_as_leader(memoryview(bytearray(batch)), 0, NOW_MS).duplicate


async def test_a_waiting_flush_is_done_by_the_log_that_takes_over(broker: Broker) -> None:
    log = create(broker)
    await broker.manager.alter_replica_dir(A0, "/d2")
    flushes: list[asyncio.Task[None]] = []
    while log.replaced_by is None:
        current = broker.manager.logs[A0]
        fill(current, 1)
        flushes.append(asyncio.ensure_future(broker.manager.flush(current)))
        await asyncio.sleep(0)
    await asyncio.gather(*flushes)
    new = broker.manager.logs[A0]
    assert new.recovery_point == new.log_end_offset


async def test_a_stopped_broker_goes_on_with_the_move(broker: Broker, disk: MemoryDisk) -> None:
    wanted = read_batches(create(broker, 200))
    slow_down(broker)
    await broker.manager.alter_replica_dir(A0, "/d2")
    await broker.clock.advance(1)
    copied = broker.manager.describe_dirs()[1].replicas[0].log_end_offset
    assert 0 < copied < 200
    await broker.manager.shutdown()
    assert disk.exists("/d2/.kafka_cleanshutdown")
    (name,) = names(disk, "/d2", "-future")
    manager = await broker.start()
    assert names(disk, "/d2") == [name]
    assert manager.describe_dirs()[1].replicas[0].log_end_offset >= copied
    await broker.clock.advance(100)
    assert manager.logs[A0].directory == "/d2/a-0"
    assert read_batches(manager.logs[A0]) == wanted


async def test_a_deleted_partition_takes_its_copy_along(broker: Broker, disk: MemoryDisk) -> None:
    create(broker, 200)
    slow_down(broker)
    await broker.manager.alter_replica_dir(A0, "/d2")
    await settle()
    broker.manager.delete(A0)
    await broker.clock.advance(100)
    assert names(disk, "/d1") == names(disk, "/d2") == []


async def test_a_full_target_makes_the_move_wait(broker: Broker, disk: MemoryDisk) -> None:
    log = create(broker)
    await broker.manager.alter_replica_dir(A0, "/d2")
    disk.fail(errno.ENOSPC, operations=frozenset({"append", "write"}), under="/d2")
    await broker.clock.advance(30)
    assert broker.manager.logs[A0] is log
    fill(log, 3)
    assert [info.failure for info in broker.manager.describe_dirs()] == [None] * 3
    disk.heal()
    await broker.clock.advance(30)
    assert broker.manager.logs[A0].directory == "/d2/a-0"
    assert broker.manager.logs[A0].log_end_offset == 33


async def test_a_failing_target_fails_alone(broker: Broker, disk: MemoryDisk) -> None:
    log = create(broker)
    await broker.manager.alter_replica_dir(A0, "/d2")
    disk.fail(errno.EIO, operations=frozenset({"append"}), under="/d2")
    await settle()
    assert [info.path for info in broker.manager.describe_dirs() if info.failure] == ["/d2"]
    assert broker.manager.logs[A0] is log
    fill(log, 1)
    with pytest.raises(KafkaError) as error:
        await broker.manager.alter_replica_dir(A0, "/d2")
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_failing_original_ends_the_move_and_keeps_the_copy(
    broker: Broker, disk: MemoryDisk
) -> None:
    create(broker, 200)
    slow_down(broker)
    await broker.manager.alter_replica_dir(A0, "/d2")
    await broker.clock.advance(1)
    broker.manager.fail_dir("/d1", "it burns")
    await settle()
    assert names(disk, "/d2") == names(disk, "/d2", "-future")
    assert broker.manager.describe_dirs()[1].failure is None
    with pytest.raises(KafkaError) as error:
        await broker.manager.alter_replica_dir(A0, "/d3")
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_errors_are_kafkas(broker: Broker) -> None:
    create(broker)
    with pytest.raises(KafkaError) as error:
        await broker.manager.alter_replica_dir(A0, "/elsewhere")
    assert error.value.code is ErrorCode.LOG_DIR_NOT_FOUND
    with pytest.raises(KafkaError) as error:
        await broker.manager.alter_replica_dir(A1, "/d3")
    assert error.value.code is ErrorCode.REPLICA_NOT_AVAILABLE
    (made,) = (await broker.manager.get_or_create_many([(A1, TOPIC_ID, CONFIG)])).values()
    assert isinstance(made, PartitionLog)
    assert made.directory == "/d3/a-1", "where it was asked for before it was there"
    long = A0._replace(topic="x" * 240)
    broker.manager.get_or_create(long, TOPIC_ID, CONFIG)
    for path in ("/d1", "/d2"):  # one of them is where it is
        with pytest.raises(KafkaError) as error:
            await broker.manager.alter_replica_dir(long, path)
        assert error.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_copy_of_an_older_topic_is_dropped_at_the_start(
    broker: Broker, disk: MemoryDisk
) -> None:
    create(broker, 200)
    slow_down(broker)
    await broker.manager.alter_replica_dir(A0, "/d2")
    await broker.clock.advance(1)
    await broker.manager.shutdown()
    (name,) = names(disk, "/d2", "-future")
    disk.write(f"/d2/{name}/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ")
    manager = await broker.start()
    await broker.clock.advance(1)
    assert names(disk, "/d2") == []
    assert manager.logs[A0].directory == "/d1/a-0"


async def test_a_copy_without_its_original_is_left_alone(
    broker: Broker, disk: MemoryDisk, caplog: pytest.LogCaptureFixture
) -> None:
    create(broker, 200)
    slow_down(broker)
    await broker.manager.alter_replica_dir(A0, "/d2")
    await broker.clock.advance(1)
    await broker.manager.shutdown()
    disk.remove_tree("/d1/a-0")
    await broker.start()
    await broker.clock.advance(100)
    assert names(disk, "/d2", "-future")
    assert "left alone" in caplog.text


async def test_several_replicas_move_at_once(broker: Broker) -> None:
    partitions = [A0._replace(partition=number) for number in range(9)]
    for partition in partitions:
        fill(broker.manager.get_or_create(partition, TOPIC_ID, CONFIG), 20)
    for partition in partitions:
        await broker.manager.alter_replica_dir(partition, "/d3")
    await broker.clock.advance(5)
    for partition in partitions:
        log = broker.manager.logs[partition]
        assert log.directory == f"/d3/a-{partition.partition}"
        assert log.log_end_offset == 20
    assert replace(CONFIG) == log.config


async def test_who_holds_a_log_over_a_move_finds_the_current_one(broker: Broker) -> None:
    first = create(broker)
    for path in ("/d2", "/d3"):
        old = broker.manager.logs[A0]
        await broker.manager.alter_replica_dir(A0, path)
        await moved(broker.manager, old)
    assert first.current is broker.manager.logs[A0]
    assert first.current.current is first.current
    assert read_batches(first.current)


async def test_nothing_is_compacted_while_it_moves_or_waits_for_its_turn(broker: Broker) -> None:
    """A tombstone could go before it is copied, when what it deletes already was."""
    await broker.manager.shutdown()
    broker.config = BrokerConfig.load(
        {"node.id": "1", "num.replica.alter.log.dirs.threads": "1", **SLOW}
    )
    manager = await broker.start()
    for partition in (A0, A1):
        fill(manager.get_or_create(partition, TOPIC_ID, CONFIG), 100)
        await manager.alter_replica_dir(partition, "/d3")
    await settle()
    assert set(manager.cleaner._paused) == {A0, A1}
    await manager.alter_replica_dir(A1, "/d2")  # back to where it is
    await broker.clock.advance(100)
    assert manager.logs[A0].directory == "/d3/a-0"
    assert manager.logs[A1].directory == "/d2/a-1"
    assert not manager.cleaner._paused


async def test_a_name_that_is_too_long_fails_no_directory(broker: Broker, disk: MemoryDisk) -> None:
    disk.fail(errno.ENAMETOOLONG, operations=frozenset({"makedirs"}))
    (result,) = (await broker.manager.get_or_create_many([(A0, TOPIC_ID, CONFIG)])).values()
    assert isinstance(result, KafkaError)
    assert result.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [info.failure for info in broker.manager.describe_dirs()] == [None] * 3

"""All logs of a broker: start, create, delete, flush, checkpoints, shutdown, failures."""

from __future__ import annotations

import asyncio
import errno
import json
import random
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from tests.support.log_manager import A0, A1, B0, CONFIG, TOPIC_ID, Broker, settle
from tests.support.partition_log import NOW_MS, fill, make_batch, read_batches

from moldau.config.values.broker import BrokerConfig
from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.log import PartitionLog
from moldau.log.directory import log_directory
from moldau.log.files.checkpoints import read_offsets
from moldau.machine.real.disk import OsDisk
from moldau.model import TopicPartition
from moldau.testing.disk import MemoryDisk

OTHER_ID = UUID(int=99)


@pytest.fixture
def broker() -> Broker:
    return Broker(MemoryDisk(random.Random(3)))


async def test_a_log_is_created_once_and_found_after_a_restart(broker: Broker) -> None:
    manager = await broker.start()
    log = manager.get_or_create(B0, TOPIC_ID, CONFIG)
    assert manager.get_or_create(B0, TOPIC_ID, CONFIG) is log
    assert manager.get(B0) is log
    assert manager.get(A0) is None
    fill(log, 30)
    wanted = read_batches(log)
    await manager.shutdown(broker_epoch=12)
    marker = json.loads(broker.disk.read("/d1/.kafka_cleanshutdown"))
    assert marker == {"version": 0, "brokerEpoch": 12}
    manager = await broker.start()
    again = manager.get(B0)
    assert again is not None
    assert again.topic_id == TOPIC_ID
    assert read_batches(again) == wanted
    assert again.recovery_point == again.log_end_offset == 30
    assert manager.recovery.bytes_scanned == 0
    assert not broker.disk.exists("/d1/.kafka_cleanshutdown"), "a crash from here on is a crash"


async def test_after_a_crash_logs_are_checked_past_their_recovery_point(broker: Broker) -> None:
    manager = await broker.start()
    log = manager.get_or_create(A0, TOPIC_ID, CONFIG)
    fill(log, 50)
    await manager.flush(log)
    await manager.checkpoint()
    fill(log, 2)
    assert isinstance(broker.disk, MemoryDisk)
    broker.disk.locks.clear()
    manager = await broker.start()
    again = manager.get(A0)
    assert again is not None
    assert again.log_end_offset == 52
    assert again.recovery_point == 50
    assert 0 < manager.recovery.bytes_scanned < 1000 < again.size


async def crash_with_a_gap(broker: Broker, *, written: bool) -> None:
    """A log with records at 0 and 10; ``written``: its recovery point, 0, is written down."""
    manager = await broker.start()
    log = manager.get_or_create(A0, TOPIC_ID, CONFIG)
    for base_offset in (0, 10):
        log.append_as_follower(make_batch(base_offset=base_offset), NOW_MS)
    if written:
        await manager.checkpoint()
    assert isinstance(broker.disk, MemoryDisk)
    broker.disk.locks.clear()


async def end_after_a_start(broker: Broker) -> int:
    log = (await broker.start()).get(A0)
    assert log is not None
    return log.log_end_offset


async def test_recovery_points_that_are_there_already_are_not_written_again_by_a_start(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(
        log_directory.LogDirectory,
        "write_checkpoint",
        lambda _, name, offsets: written.append(name),
    )
    await broker.start()
    assert written == ["recovery-point-offset-checkpoint"], "a new directory has none"
    monkeypatch.undo()
    assert isinstance(broker.disk, MemoryDisk)
    broker.disk.locks.clear()
    fill((await broker.start()).get_or_create(A0, TOPIC_ID, CONFIG), 3)
    await broker.manager.shutdown()
    monkeypatch.setattr(
        log_directory.LogDirectory,
        "write_checkpoint",
        lambda _, name, offsets: written.append(name),
    )
    written.clear()
    await broker.start()
    assert written == []


@pytest.mark.parametrize("written", [True, False])
async def test_a_gap_past_the_recovery_point_ends_a_log_also_a_new_one(
    broker: Broker, written: bool
) -> None:
    await crash_with_a_gap(broker, written=written)
    assert await end_after_a_start(broker) == 1


@pytest.mark.parametrize("damaged", [True, False])
async def test_gaps_are_kept_where_all_recovery_points_are_lost(
    broker: Broker, damaged: bool
) -> None:
    await crash_with_a_gap(broker, written=True)
    if damaged:
        broker.disk.write_atomic("/d1/recovery-point-offset-checkpoint", b"0\nmany\n")
    else:
        broker.disk.remove("/d1/recovery-point-offset-checkpoint")
    assert await end_after_a_start(broker) == 11


async def test_the_recovery_point_of_a_log_that_cannot_be_opened_is_kept(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = await broker.start()
    log = manager.get_or_create(A0, TOPIC_ID, CONFIG)
    for base_offset in (0, 10):
        log.append_as_follower(make_batch(base_offset=base_offset), NOW_MS)
    await manager.flush(log)
    await manager.checkpoint()
    disk = broker.disk
    assert isinstance(disk, MemoryDisk)
    disk.locks.clear()
    with monkeypatch.context() as patch:
        patch.setattr(log_directory, "load_log", refuse)
        manager = await broker.start()
        assert A0 in manager.offline
        await manager.checkpoint()
        disk.locks.clear()
    assert await end_after_a_start(broker) == 11


def refuse(*_args: object, **_named: object) -> PartitionLog:
    raise OSError("the disk has a bad day")


async def test_recovery_points_of_deleted_logs_are_forgotten(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await crash_with_a_gap(broker, written=True)
    with monkeypatch.context() as patch:
        patch.setattr(log_directory, "load_log", refuse)
        manager = await broker.start()
    manager.delete(A0)
    await manager.checkpoint()
    assert read_offsets(broker.disk, "/d1/recovery-point-offset-checkpoint") == {}


async def test_a_directory_is_used_by_one_broker(tmp_path: Path) -> None:
    first, second = (Broker(OsDisk(), (str(tmp_path),)) for _ in range(2))
    await first.start()
    with pytest.raises(BlockingIOError, match="another broker"):
        await second.start()
    await first.manager.shutdown()
    await second.start()
    await second.manager.shutdown()


async def test_new_logs_go_where_the_fewest_are() -> None:
    broker = Broker(MemoryDisk(), ("/d1", "/d2"))
    manager = await broker.start()
    for number in range(6):
        broker.create(TopicPartition("t", number))
    homes = [info.path for info in manager.describe_dirs() for _ in info.replicas]
    assert sorted(homes) == ["/d1"] * 3 + ["/d2"] * 3
    for number in (0, 2, 4):
        manager.delete(TopicPartition("t", number))
    broker.create(TopicPartition("u", 0))
    counts = {info.path: len(info.replicas) for info in manager.describe_dirs()}
    assert sorted(counts.values()) in ([1, 3], [2, 2])


async def test_many_logs_are_made_at_once() -> None:
    broker = Broker(MemoryDisk(), ("/d1", "/d2"))
    manager = await broker.start()
    broker.create(TopicPartition("t", 0))
    manager.offline[TopicPartition("t", 1)] = "unreadable"
    wanted = [(TopicPartition("t", number), TOPIC_ID, CONFIG) for number in range(600)]
    results = await manager.get_or_create_many(wanted)
    assert isinstance(results.pop(TopicPartition("t", 1)), KafkaError)
    assert results == manager.logs
    assert len(results) == 599
    assert all(log.topic_id == TOPIC_ID for log in manager.logs.values())
    counts = [len(info.replicas) for info in manager.describe_dirs()]
    assert sorted(counts) == [299, 300]
    await manager.shutdown()
    manager = await broker.start()
    assert len(manager.logs) == 599


async def test_a_log_made_twice_at_once_is_one_log(broker: Broker) -> None:
    manager = await broker.start()
    wanted = [(A0, TOPIC_ID, CONFIG)]
    first, second = await asyncio.gather(
        manager.get_or_create_many(wanted), manager.get_or_create_many(wanted)
    )
    assert first[A0] is second[A0] is manager.get(A0)


async def test_a_deleted_log_is_renamed_now_and_removed_later(broker: Broker) -> None:
    manager = await broker.start()
    log = manager.get_or_create(A0, TOPIC_ID, CONFIG)
    fill(log, 3)
    found = log.read(0, 100, 3)
    assert found is not None
    before = found.read()
    manager.delete(A0)
    assert manager.get(A0) is None
    assert found.read() == before, "a reader keeps the file"
    with pytest.raises(KafkaError):
        log.append_as_leader(make_batch(), 0, NOW_MS)
    (name,) = [name for name in broker.disk.listdir("/d1") if name.endswith("-delete")]
    assert name.startswith("a-0.")
    broker.create(A0)
    await broker.clock.advance(59)
    assert name in broker.disk.listdir("/d1")
    await broker.clock.advance(2)
    assert name not in broker.disk.listdir("/d1")
    assert broker.disk.is_dir("/d1/a-0")
    manager.delete(TopicPartition("never", 0))


async def test_deletions_are_finished_at_the_next_start(broker: Broker) -> None:
    manager = await broker.start()
    broker.create(A0)
    manager.delete(A0)
    await manager.shutdown()
    manager = await broker.start()
    await settle()
    assert not [name for name in broker.disk.listdir("/d1") if name.endswith("-delete")]
    assert manager.logs == {}


async def test_removed_segments_are_deleted_later(broker: Broker) -> None:
    manager = await broker.start()
    log = manager.get_or_create(A0, TOPIC_ID, CONFIG)
    fill(log, 50)
    log.increment_log_start_offset(45)
    marked = [name for name in broker.disk.listdir("/d1/a-0") if name.endswith(".deleted")]
    assert marked
    await broker.clock.advance(61)
    assert not [name for name in broker.disk.listdir("/d1/a-0") if name.endswith(".deleted")]


async def test_a_log_of_an_older_topic_is_set_aside(broker: Broker) -> None:
    manager = await broker.start()
    old = manager.get_or_create(A0, TOPIC_ID, CONFIG)
    fill(old, 3)
    new = manager.get_or_create(A0, uuid4(), CONFIG)
    assert new is not old
    assert new.log_end_offset == 0
    assert [name for name in broker.disk.listdir("/d1") if name.endswith("-stray")]
    await manager.shutdown()
    manager = await broker.start()
    assert set(manager.logs) == {A0}


async def test_a_log_without_a_topic_id_gets_one(broker: Broker) -> None:
    manager = await broker.start()
    broker.create(A0, UUID(int=0))
    log = manager.get_or_create(A0, TOPIC_ID, CONFIG)
    assert log.topic_id == TOPIC_ID
    await manager.shutdown()
    manager = await broker.start()
    assert manager.logs[A0].topic_id == TOPIC_ID


async def test_what_does_not_belong_to_us_is_left_alone(broker: Broker) -> None:
    for name in ("__cluster_metadata-0", "lost+found", "a-0.123-future", "a-1.123-stray"):
        broker.disk.makedirs(f"/d1/{name}")
    broker.disk.write("/d1/bootstrap.checkpoint", b"x")
    manager = await broker.start()
    assert manager.logs == {}
    assert broker.disk.is_dir("/d1/a-0.123-future")


# Flushing and checkpoints ------------------------------------------------------------------------


async def test_a_rolled_segment_is_flushed_in_the_background(broker: Broker) -> None:
    manager = await broker.start()
    log = manager.get_or_create(A0, TOPIC_ID, CONFIG)
    fill(log, 50)
    assert log.recovery_point == 0
    await settle()
    assert log.recovery_point == log.segments[-1].base_offset > 0


async def test_flushes_at_the_same_time_share_a_sync(broker: Broker) -> None:
    manager = await broker.start()
    log = manager.get_or_create(A0, TOPIC_ID, CONFIG)
    assert isinstance(broker.disk, MemoryDisk)
    syncs = broker.disk.operations["sync"]

    async def append_and_flush() -> None:
        info = log.append_as_leader(make_batch(), 0, NOW_MS)
        await manager.flush(log)
        assert log.recovery_point > info.last_offset

    await asyncio.gather(*(append_and_flush() for _ in range(10)))
    assert log.recovery_point == 10
    assert broker.disk.operations["sync"] - syncs < 10


async def test_a_log_is_flushed_when_its_time_has_come(broker: Broker) -> None:
    manager = await broker.start()
    log = manager.get_or_create(A0, TOPIC_ID, TopicConfig(flush_ms=5000))
    fill(log, 3)
    await broker.clock.advance(4)
    assert log.recovery_point == 0
    await broker.clock.advance(2)
    assert log.recovery_point == 3


async def test_a_clock_that_is_set_back_does_not_put_flushes_off(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = await broker.start()
    log = manager.get_or_create(A0, TOPIC_ID, TopicConfig(flush_ms=5000))
    fill(log, 3)
    earlier = broker.clock.now_ms() - 3_600_000
    monkeypatch.setattr(broker.clock, "now_ms", lambda: earlier)
    await broker.clock.advance(6)
    assert log.recovery_point == 3


async def test_a_failed_flush_is_told_to_all_who_wait() -> None:
    broker = Broker(MemoryDisk(), ("/d1", "/d2"))
    manager = await broker.start()
    log = manager.get_or_create(A0, TOPIC_ID, CONFIG)
    other = manager.get_or_create(A1, TOPIC_ID, CONFIG)
    fill(log, 3)
    assert isinstance(broker.disk, MemoryDisk)
    broker.disk.fail(errno.EIO, operations=frozenset({"sync"}))
    results = await asyncio.gather(manager.flush(log), manager.flush(log), return_exceptions=True)
    broker.disk.heal()
    assert log.failure
    for result in results:
        assert isinstance(result, KafkaError)
        assert result.code is ErrorCode.KAFKA_STORAGE_ERROR
    fill(other, 3)
    await manager.flush(other)


async def test_checkpoints_are_written_from_time_to_time(broker: Broker) -> None:
    manager = await broker.start()
    log = manager.get_or_create(A0, TOPIC_ID, CONFIG)
    broker.create(B0)
    manager.use_high_watermarks(lambda: {A0: 17, B0: 4}, lambda _: None)
    fill(log, 50)
    log.increment_log_start_offset(log.segments[-1].base_offset + 1)
    await broker.clock.advance(6)
    assert read_offsets(broker.disk, "/d1/replication-offset-checkpoint") == {A0: 17, B0: 4}
    await broker.clock.advance(60)
    points = read_offsets(broker.disk, "/d1/recovery-point-offset-checkpoint")
    assert points == {A0: log.recovery_point, B0: 0}
    starts = read_offsets(broker.disk, "/d1/log-start-offset-checkpoint")
    assert starts == {A0: log.log_start_offset}
    await manager.shutdown()
    manager = await broker.start()
    assert manager.checkpointed_high_watermarks == {A0: 17, B0: 4}
    assert manager.logs[A0].log_start_offset == log.log_start_offset


async def test_a_checkpoint_is_written_only_when_something_changed(broker: Broker) -> None:
    manager = await broker.start()
    broker.create(A0)
    await manager.checkpoint()
    assert isinstance(broker.disk, MemoryDisk)
    before = broker.disk.operations["write"]
    await manager.checkpoint()
    assert broker.disk.operations["write"] == before


async def test_damaged_checkpoints_are_ignored(broker: Broker) -> None:
    manager = await broker.start()
    fill(manager.get_or_create(A0, TOPIC_ID, CONFIG), 5)
    await manager.shutdown()
    broker.disk.write("/d1/recovery-point-offset-checkpoint", b"rubbish\nx\n")
    manager = await broker.start()
    assert manager.logs[A0].log_end_offset == 5


async def test_a_truncation_is_durable_before_it_returns(broker: Broker) -> None:
    manager = await broker.start()
    log = manager.get_or_create(A0, TOPIC_ID, CONFIG)
    fill(log, 30)
    await manager.flush(log)
    await manager.checkpoint()
    assert await manager.truncate_to(log, 12)
    points = read_offsets(broker.disk, "/d1/recovery-point-offset-checkpoint")
    assert points == {A0: 12}
    assert not await manager.truncate_to(log, 12)
    assert isinstance(broker.disk, MemoryDisk)
    broker.disk = broker.disk.power_cut()
    manager = await broker.start()
    assert manager.logs[A0].log_end_offset == 12
    await manager.truncate_fully_and_start_at(manager.logs[A0], 100)
    assert manager.logs[A0].log_end_offset == 100


async def test_producers_expire(broker: Broker) -> None:
    broker.config = BrokerConfig.load(
        {
            "node.id": "1",
            "producer.id.expiration.ms": "20000",
            "producer.id.expiration.check.interval.ms": "5000",
        }
    )
    manager = await broker.start()
    log = manager.get_or_create(A0, TOPIC_ID, CONFIG)
    log.append_as_leader(make_batch(producer_id=5), 0, NOW_MS)
    await broker.clock.advance(19)
    assert log.active_producers()
    await broker.clock.advance(2)
    assert not log.active_producers()


# Failures ----------------------------------------------------------------------------------------


async def test_a_failed_directory_takes_only_its_own_logs_offline() -> None:
    broker = Broker(MemoryDisk(), ("/d1", "/d2"))
    manager = await broker.start()
    for number in range(4):
        broker.create(TopicPartition("t", number))
    told: list[TopicPartition] = []
    ends: list[str] = []
    manager.on_offline = told.extend
    manager.on_all_offline = lambda: ends.append("all")
    manager.fail_dir("/d1", "it burns")
    assert len(manager.logs) == 2
    assert all(log.failure is None for log in manager.logs.values())
    assert set(told) == set(manager.offline)
    assert len(told) == 2
    (failed,) = [info for info in manager.describe_dirs() if info.failure]
    assert failed.path == "/d1"
    broker.create(TopicPartition("u", 0))
    assert broker.disk.is_dir("/d2/u-0")
    assert ends == []
    manager.fail_dir("/d2", "it burns too")
    assert ends == ["all"]
    with pytest.raises(KafkaError) as error:
        broker.create(TopicPartition("u", 1))
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_directory_that_cannot_be_opened_is_left_out() -> None:
    disk = MemoryDisk()
    disk.write("/file", b"")
    broker = Broker(disk, ("/d1", "/d2"))
    disk.makedirs("/d1")
    disk.makedirs("/d2")
    disk.fail(errno.EIO, after=1, operations=frozenset({"listdir"}))
    manager = broker.new_manager()
    starting = asyncio.ensure_future(manager.start(lambda _: CONFIG))
    await starting
    disk.heal()
    assert [info.failure is None for info in manager.describe_dirs()] == [True, False]
    # Its records may be in the directory that could not be read.
    with pytest.raises(KafkaError) as error:
        manager.get_or_create(A0, TOPIC_ID, CONFIG)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert manager.get_or_create(A0, TOPIC_ID, CONFIG, is_new=True).log_end_offset == 0


async def test_without_any_directory_the_start_fails() -> None:
    disk = MemoryDisk()
    disk.fail(errno.EIO)
    with pytest.raises(KafkaError) as error:
        await Broker(disk).start()
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_one_bad_log_does_not_keep_the_others_from_opening(broker: Broker) -> None:
    manager = await broker.start()
    for partition in (A0, A1):
        fill(manager.get_or_create(partition, TOPIC_ID, CONFIG), 3)
    await manager.shutdown()
    old_format = bytes(8) + b"\0\0\0\x40" + b"\1" * 64
    broker.disk.write("/d1/a-0/00000000000000000000.log", old_format)
    manager = await broker.start()
    assert set(manager.logs) == {A1}
    assert A0 in manager.offline
    with pytest.raises(KafkaError) as error:
        broker.create(A0)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    await manager.shutdown()
    assert not broker.disk.exists("/d1/.kafka_cleanshutdown")


async def test_a_log_that_failed_keeps_its_directory_from_being_clean(broker: Broker) -> None:
    manager = await broker.start()
    log = manager.get_or_create(A0, TOPIC_ID, CONFIG)
    fill(manager.get_or_create(A1, TOPIC_ID, CONFIG), 3)
    fill(log, 3)
    assert isinstance(broker.disk, MemoryDisk)
    broker.disk.fail(errno.ENOSPC, operations=frozenset({"append", "truncate"}))
    with pytest.raises(KafkaError):
        fill(log, 1)
    broker.disk.heal()
    await manager.shutdown()
    assert not broker.disk.exists("/d1/.kafka_cleanshutdown")
    manager = await broker.start()
    assert manager.logs[A0].log_end_offset in (3, 4)
    assert manager.logs[A1].log_end_offset == 3


async def two_of_a_name(first: UUID, second: UUID) -> Broker:
    """A partition with three records in one directory and four in the other."""
    disk = MemoryDisk()
    for path, topic_id, records in (("/d1", first, 3), ("/d2", second, 4)):
        broker = Broker(disk, (path,))
        manager = await broker.start()
        fill(manager.get_or_create(A0, topic_id, CONFIG), records)
        await manager.shutdown()
    return Broker(disk, ("/d1", "/d2"))


async def test_of_a_partition_in_two_directories_neither_is_touched() -> None:
    broker = await two_of_a_name(TOPIC_ID, TOPIC_ID)
    manager = await broker.start()
    assert not manager.logs
    with pytest.raises(KafkaError, match="both in /d1/a-0 and in /d2/a-0"):
        manager.get_or_create(A0, TOPIC_ID, CONFIG)
    with pytest.raises(KafkaError, match="both in /d1/a-0 and in /d2/a-0"):
        manager.delete(A0)
    await manager.shutdown()
    assert broker.disk.is_dir("/d1/a-0")
    assert broker.disk.is_dir("/d2/a-0")
    assert broker.disk.exists("/d1/.kafka_cleanshutdown")


@pytest.mark.parametrize(("known", "records"), [(TOPIC_ID, 3), (OTHER_ID, 4)])
async def test_of_a_partition_in_two_directories_the_stores_topic_is_served(
    known: UUID, records: int
) -> None:
    broker = await two_of_a_name(TOPIC_ID, OTHER_ID)
    manager = await broker.start(topic_ids={"a": known})
    assert manager.get_or_create(A0, known, CONFIG).log_end_offset == records
    manager.delete(A0)
    with pytest.raises(KafkaError, match="of another topic"):
        manager.get_or_create(A0, uuid4(), CONFIG)
    await manager.shutdown()
    left = [path for path in ("/d1", "/d2") if broker.disk.is_dir(f"{path}/a-0")]
    assert left == (["/d2"] if known == TOPIC_ID else ["/d1"])


async def test_what_may_be_in_a_directory_that_is_offline_is_not_deleted() -> None:
    """It would come back with the directory."""
    disk = MemoryDisk()
    broker = Broker(disk, ("/d1", "/d2"))
    manager = await broker.start()
    for partition in (A0, A1):
        broker.create(partition)
    offline = next(one for one in (A0, A1) if manager.logs[one].directory.startswith("/d2"))
    manager.fail_dir("/d2", "broken")
    with pytest.raises(KafkaError) as error:
        manager.delete(offline)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert offline in manager.offline
    await manager.shutdown()
    disk.write("/d3", b"no directory")
    manager = await Broker(disk, ("/d1", "/d3")).start()
    with pytest.raises(KafkaError, match="cannot be used now"):
        manager.delete(offline)


async def test_what_cannot_be_opened_can_be_deleted(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await crash_with_a_gap(broker, written=True)
    with monkeypatch.context() as patch:
        patch.setattr(log_directory, "load_log", refuse)
        manager = await broker.start()
    manager.delete(A0)
    await manager.sync_deletions()
    assert not broker.disk.exists("/d1/a-0")
    assert manager.get_or_create(A0, TOPIC_ID, CONFIG).log_end_offset == 0


async def test_what_is_left_alone_is_neither_served_nor_replaced_nor_deleted(
    broker: Broker,
) -> None:
    manager = await broker.start()
    fill(manager.get_or_create(A0, TOPIC_ID, CONFIG), 3)
    manager.leave_alone(A0, "somebody put it there")
    assert manager.get(A0) is None
    with pytest.raises(KafkaError, match="somebody put it there"):
        manager.get_or_create(A0, OTHER_ID, CONFIG)
    with pytest.raises(KafkaError, match="somebody put it there"):
        manager.delete(A0)
    await manager.shutdown()
    log = (await broker.start()).get(A0)
    assert log is not None
    assert log.log_end_offset == 3


async def test_where_all_directories_are_cordoned_there_is_room_for_who_insists() -> None:
    broker = Broker(MemoryDisk())
    broker.config = BrokerConfig.load(
        {"node.id": "1", "log.dirs": "/d1", "cordoned.log.dirs": "/d1"}
    )
    manager = await broker.start()
    assert manager.all_cordoned
    assert await manager.has_room(1)


async def test_directories_that_are_no_partitions_are_not_opened(broker: Broker) -> None:
    names = ["..-0", "foo bar-0", "x\ny-0", "a" * 250 + "-0", "a-2147483648"]
    for name in names:
        broker.disk.makedirs(f"/d1/{name}")
    manager = await broker.start()
    assert not manager.logs
    assert all(broker.disk.listdir(f"/d1/{name}") == [] for name in names)


@pytest.mark.parametrize("empty", ["/d1", "/d2"])
async def test_an_empty_log_that_a_crash_left_elsewhere_gives_way(empty: str) -> None:
    disk = MemoryDisk()
    full = "/d2" if empty == "/d1" else "/d1"
    manager = await Broker(disk, (full,)).start()
    fill(manager.get_or_create(A0, TOPIC_ID, CONFIG), 3)
    await manager.shutdown()
    disk.makedirs(f"{empty}/a-0")
    manager = await Broker(disk, ("/d1", "/d2")).start()
    assert manager.logs[A0].directory == f"{full}/a-0"
    assert manager.logs[A0].log_end_offset == 3
    assert not disk.exists(f"{empty}/a-0")


async def test_thousands_of_idle_logs_cost_neither_files_nor_syncs_at_the_end(
    broker: Broker,
) -> None:
    manager = await broker.start()
    for number in range(300):
        broker.create(TopicPartition("t", number))
    await manager.shutdown()
    manager = await broker.start()
    assert len(manager.logs) == 300
    assert isinstance(broker.disk, MemoryDisk)
    syncs = broker.disk.operations["sync"]
    await manager.shutdown()
    assert broker.disk.operations["sync"] - syncs <= 3


async def test_producers_that_were_forgotten_are_told_once(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.start()
    broker.create(A0)
    broker.manager.logs[A0].producers.forgotten = 1_000
    for _ in range(2):
        await broker.clock.advance(broker.config.producer_id_expiration_check_interval_ms / 1000)
    told = [record.getMessage() for record in caplog.records if "forgotten" in record.message]
    assert len(told) == 1
    assert told[0].startswith("a-0: 1000 producers were forgotten")

"""The replicas of a broker: taken up, given back, reconfigured, and what a bad disk does."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from uuid import UUID

import pytest
from tests.support.partitions import (
    LOCAL,
    NOW_MS,
    SECOND,
    TOPIC_ID,
    append,
    batch,
    make_log,
    state,
)

from moldau.config.values.broker import BrokerConfig
from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.log import LogManager
from moldau.log.files.names import HIGH_WATERMARK_CHECKPOINT
from moldau.machine.real import real_machine
from moldau.model import TopicPartition
from moldau.replication import ParkedFetch, ParkedProduce, Partition, ReplicaManager
from moldau.testing.clock import ManualClock
from moldau.testing.disk import MemoryDisk

LOGS = "/logs"
T0 = TopicPartition("t", 0)


class Broker:
    """Log manager and replica manager over one disk in memory."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.topic_configs: dict[str, TopicConfig] = {}
        config = BrokerConfig.load({"node.id": str(LOCAL), "log.dirs": LOGS})
        self.machine = replace(real_machine(), disk=disk)
        self.logs = LogManager(self.machine, [LOGS], config)
        self.replicas = ReplicaManager(LOCAL, self.logs, self.topic_config)
        self.logs.use_high_watermarks(self.replicas.high_watermarks, self.replicas.high_watermark)

    def topic_config(self, name: str) -> TopicConfig:
        return self.topic_configs.get(name, TopicConfig())

    async def start(self) -> Broker:
        await self.logs.start(self.topic_config)
        return self

    def names(self) -> list[str]:
        return sorted(name for name in self.disk.listdir(LOGS) if "-0" in name)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = await Broker(MemoryDisk()).start()
    yield broker
    await broker.logs.shutdown()
    broker.machine.threads.close()


async def test_only_partitions_with_a_replica_here_are_taken_up(broker: Broker) -> None:
    elsewhere = state(topic="u", leader=SECOND, isr=(SECOND,), replicas=(SECOND,))
    assert await broker.replicas.apply([state(), elsewhere]) == []
    assert list(broker.replicas.topics) == ["t"]
    assert broker.replicas.topics["t"][0].is_leader
    assert broker.names() == ["t-0"]


async def test_a_known_partition_keeps_its_log_when_leadership_changes(broker: Broker) -> None:
    await broker.replicas.apply([state()])
    partition = broker.replicas.topics["t"][0]
    append(partition, 3)
    await broker.replicas.apply([state(leader=SECOND, epoch=1, isr=(SECOND, LOCAL))])
    assert broker.replicas.topics["t"][0] is partition
    assert not partition.is_leader
    assert partition.log.log_end_offset == 3


async def test_a_topic_of_the_same_name_but_another_id_starts_empty(broker: Broker) -> None:
    clock = ManualClock(NOW_MS)
    await broker.replicas.apply([state(isr=(LOCAL, SECOND))])
    older = broker.replicas.topics["t"][0]
    answered: list[list[ErrorCode]] = []
    ParkedProduce(clock, [(older, append(older))], timeout_ms=1000, answer=answered.append)
    await broker.replicas.apply([state(topic_id=UUID(int=8))])
    newer = broker.replicas.topics["t"][0]
    assert newer is not older
    assert newer.log.log_end_offset == 0
    assert answered == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]]
    assert not older.is_leader


async def test_a_deleted_partition_is_renamed_and_wakes_what_waits_for_it(broker: Broker) -> None:
    clock = ManualClock(NOW_MS)
    await broker.replicas.apply([state(isr=(LOCAL, SECOND))])
    partition = broker.replicas.topics["t"][0]
    produced: list[list[ErrorCode]] = []
    fetched: list[bool] = []
    ParkedProduce(clock, [(partition, append(partition))], timeout_ms=1000, answer=produced.append)
    ParkedFetch(
        clock,
        [partition],
        min_bytes=1,
        available=0,
        max_wait_ms=1000,
        attempt=lambda final: fetched.append(final),
    )
    await broker.replicas.stop([T0], delete=True)
    clock.run_due()
    assert produced == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]]
    assert fetched == [True]
    assert broker.replicas.topics == {}
    assert [name.endswith("-delete") for name in broker.names()] == [True]


async def test_a_stopped_partition_keeps_its_log_unless_it_is_deleted(broker: Broker) -> None:
    await broker.replicas.apply([state()])
    append(broker.replicas.topics["t"][0], 2)
    await broker.replicas.stop([T0], delete=False)
    assert broker.names() == ["t-0"]
    await broker.replicas.apply([state(epoch=1)])
    assert broker.replicas.topics["t"][0].log.log_end_offset == 2


async def test_a_disk_that_refuses_one_partition_leaves_the_others_alone(broker: Broker) -> None:
    await broker.replicas.apply([state(topic="good")])
    broker.disk.fail(errno.ENOSPC, operations=frozenset({"makedirs"}))
    failed = await broker.replicas.apply([state(), state(topic="good", epoch=1)])
    assert failed == [T0]
    assert broker.replicas.is_offline("t", 0)
    assert not broker.replicas.is_offline("good", 0)
    assert broker.replicas.topics["good"][0].leader_epoch == 1

    broker.disk.heal()
    assert await broker.replicas.apply([state(epoch=2)]) == []
    assert not broker.replicas.is_offline("t", 0)


async def test_stopping_an_offline_partition_forgets_it(broker: Broker) -> None:
    broker.disk.fail(errno.EIO, operations=frozenset({"makedirs"}))
    await broker.replicas.apply([state()])
    await broker.replicas.stop([T0], delete=True)
    assert not broker.replicas.is_offline("t", 0)
    assert broker.replicas.topics == {}


async def test_new_settings_reach_open_logs(broker: Broker) -> None:
    await broker.replicas.apply([state()])
    broker.topic_configs["t"] = replace(TopicConfig(), max_message_bytes=10)
    broker.replicas.reconfigure("t")
    broker.replicas.reconfigure("unknown")
    assert broker.replicas.topics["t"][0].log.config.max_message_bytes == 10


async def test_shutdown_answers_whatever_is_parked(broker: Broker) -> None:
    clock = ManualClock(NOW_MS)
    await broker.replicas.apply([state(isr=(LOCAL, SECOND))])
    partition = broker.replicas.topics["t"][0]
    produced: list[list[ErrorCode]] = []
    fetched: list[bool] = []
    ParkedProduce(clock, [(partition, append(partition))], timeout_ms=9000, answer=produced.append)
    ParkedFetch(
        clock,
        [partition],
        min_bytes=1,
        available=0,
        max_wait_ms=9000,
        attempt=lambda final: fetched.append(final),
    )
    broker.replicas.wake_all()
    clock.run_due()
    assert produced == [[ErrorCode.REQUEST_TIMED_OUT]]
    assert fetched == [True]


async def test_the_high_watermark_survives_a_restart() -> None:
    disk = MemoryDisk()
    first = await Broker(disk).start()
    await first.replicas.apply([state(isr=(LOCAL, SECOND))])
    partition = first.replicas.topics["t"][0]
    append(partition, 5)
    partition.read(3, 1 << 20, follower_id=SECOND)
    await first.logs.shutdown()
    assert b"t 0 3" in disk.read(f"{LOGS}/{HIGH_WATERMARK_CHECKPOINT}")

    second = await Broker(disk).start()
    await second.replicas.apply([state(epoch=1, isr=(LOCAL, SECOND), topic_id=TOPIC_ID)])
    partition = second.replicas.topics["t"][0]
    assert (partition.high_watermark, partition.log.log_end_offset) == (3, 5)
    await second.logs.shutdown()


async def test_what_a_killed_process_left_in_the_cache_is_served_once_it_is_led_again() -> None:
    disk = MemoryDisk()
    for end in (1, 2):
        broker = Broker(disk)
        broker.topic_configs["t"] = TopicConfig(flush_messages=1)
        await broker.start()
        assert await broker.replicas.apply([state()]) == []
        partition = broker.replicas.topics["t"][0]
        assert partition.high_watermark == partition.log.log_end_offset == end - 1
        append(partition)
        broker.machine.threads.close()
        disk.next_life()


async def test_very_many_partitions_are_taken_up_with_the_loop_running(broker: Broker) -> None:
    """Slices: other tasks get their turn while very many logs are made."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count_turns())
    await broker.replicas.apply([state(topic=f"t{number}") for number in range(640)])
    counting.cancel()
    assert len(broker.replicas.topics) == 640
    assert turns >= 640 // 64 - 1


# Following ---------------------------------------------------------------------------------------


class Following:
    """Notes who is followed; ``hold`` keeps whoever wants something released waiting."""

    bytes_in = 0

    def __init__(self) -> None:
        self.followed: list[tuple[TopicPartition, int, int]] = []
        self.released: list[TopicPartition] = []
        self.dropped: list[TopicPartition] = []
        self.hold = asyncio.Event()
        self.hold.set()

    def follow(self, partition: Partition) -> None:
        self.followed.append((partition.topic_partition, partition.follows, partition.leader_epoch))

    async def release(self, topic_partitions: Iterable[TopicPartition]) -> None:
        self.released += topic_partitions
        await self.hold.wait()

    def drop(self, topic_partitions: Iterable[TopicPartition]) -> None:
        self.dropped += topic_partitions


@pytest.fixture
def following(broker: Broker) -> Following:
    following = Following()
    broker.replicas.following = following
    return following


async def test_a_replica_is_followed_only_where_another_broker_leads(
    broker: Broker, following: Following
) -> None:
    both = (LOCAL, SECOND)
    await broker.replicas.apply([state(leader=SECOND, epoch=3, isr=both)])
    assert following.followed == [(T0, SECOND, 3)]
    await broker.replicas.apply([state(leader=-1, epoch=4, isr=both)])
    assert broker.replicas.topics["t"][0].follows == -1
    await broker.replicas.apply([state(leader=LOCAL, epoch=5, isr=both)])
    assert following.followed == [(T0, SECOND, 3)]
    assert following.released == [T0, T0]
    await broker.replicas.apply([state(leader=SECOND, epoch=6, isr=both)])
    assert following.followed[1:] == [(T0, SECOND, 6)]
    await broker.replicas.stop([T0], delete=False)
    assert following.released == [T0] * 4


async def test_an_older_state_changes_nobodys_leader(broker: Broker, following: Following) -> None:
    both = (LOCAL, SECOND)
    await broker.replicas.apply([state(leader=SECOND, epoch=3, isr=both)])
    await broker.replicas.apply([state(leader=LOCAL, epoch=2, isr=both)])
    assert following.followed == [(T0, SECOND, 3)] * 2


async def test_nobody_leads_before_what_was_done_as_a_follower_is_over(
    broker: Broker, following: Following
) -> None:
    both = (LOCAL, SECOND)
    await broker.replicas.apply([state(leader=SECOND, epoch=3, isr=both)])
    partition = broker.replicas.topics["t"][0]
    following.hold.clear()
    leading = asyncio.ensure_future(broker.replicas.apply([state(leader=LOCAL, epoch=4, isr=both)]))
    stopping = asyncio.ensure_future(broker.replicas.stop([T0], delete=True))
    for _ in range(10):
        await asyncio.sleep(0)
    assert partition.leader_epoch == 3
    assert broker.names() == ["t-0"]
    following.hold.set()
    await leading
    assert (partition.leader_epoch, partition.log.leader_epochs.latest_epoch) == (4, 4)
    await stopping
    assert broker.replicas.topics == {}


async def test_replicas_of_a_failed_disk_are_followed_no_more(
    broker: Broker, following: Following
) -> None:
    await broker.replicas.apply([state(leader=SECOND, epoch=3, isr=(LOCAL, SECOND))])
    broker.logs.fail_dir(LOGS, "it burns")
    assert following.dropped == [T0]


def test_a_follower_knows_what_is_committed_as_far_as_its_log_reaches() -> None:
    partition = Partition(LOCAL, make_log(), state(leader=SECOND, epoch=3, isr=(LOCAL, SECOND)))
    records = memoryview(
        bytearray(b"".join(batch(base_offset=n, leader_epoch=2) for n in range(5)))
    )
    with pytest.raises(KafkaError) as error:
        partition.append_as_follower(records, 2, NOW_MS)
    assert error.value.code is ErrorCode.FENCED_LEADER_EPOCH
    partition.append_as_follower(records, 3, NOW_MS)
    partition.take_over_offsets(9, 0)
    assert partition.high_watermark == 5
    # A new leader that has not heard from its followers yet knows less.
    partition.take_over_offsets(2, 0)
    assert partition.high_watermark == 5
    partition.take_over_offsets(5, 3)
    assert partition.log.log_start_offset == 3
    partition.log.truncate_to(4, NOW_MS)
    assert partition.truncated()
    assert partition.high_watermark == 4
    assert not partition.truncated()

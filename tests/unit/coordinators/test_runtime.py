"""Coordinators by internal topic: shards follow leadership, keys find their shard."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.support.partitions import LOCAL, SECOND, append, make_log, state
from tests.unit.coordinators.harness import Notes, error

from moldau.controller import CreateTopicResult, NewTopic
from moldau.coordinators import (
    Coordinator,
    CoordinatorRuntime,
    CoordinatorSpec,
    HostState,
    RuntimePorts,
)
from moldau.errors import ErrorCode, KafkaError
from moldau.outcome import Outcome
from moldau.records.compression import Compression
from moldau.replication import Partition
from moldau.testing.clock import ManualClock

TOPIC = "__notes"


class World:
    """What the broker around the runtime would be."""

    def __init__(self) -> None:
        self.partitions: dict[str, dict[int, Partition]] = {}
        self.counts: dict[str, int] = {}
        self.created: list[NewTopic] = []
        self.result = ErrorCode.NONE
        self.tasks: list[asyncio.Task[None]] = []
        self.runtime = CoordinatorRuntime(
            RuntimePorts(
                replicas=lambda topic: self.partitions.get(topic, {}),
                clock=ManualClock(),
                spawn=self.spawn,
                partition_count=self.counts.get,
                create_topic=self.create,
            )
        )

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    async def settle(self) -> None:
        await asyncio.gather(*self.tasks)

    async def create(self, topic: NewTopic) -> CreateTopicResult:
        self.created.append(topic)
        await asyncio.sleep(0)
        if not self.result:
            self.counts[topic.name] = topic.num_partitions
        return CreateTopicResult(name=topic.name, error=self.result)

    def register(self, topic: str = TOPIC, partitions: int = 3) -> Coordinator[Notes]:
        return self.runtime.register(
            CoordinatorSpec(
                topic,
                new_topic=lambda: NewTopic(name=topic, num_partitions=partitions),
                new_shard=Notes,
                compression=lambda: Compression.NONE,
                commit_timeout_ms=lambda: 5000,
                load_buffer_bytes=lambda: 100,
            )
        )

    def lead(self, index: int, topic: str = TOPIC, *, records: int = 0, epoch: int = 0) -> None:
        partition = Partition(LOCAL, make_log(topic=topic), state(topic=topic, epoch=epoch))
        for _ in range(records):
            append(partition)
        self.partitions.setdefault(topic, {})[index] = partition


def note(coordinator: Coordinator[Notes], key: str) -> Any:
    return coordinator.submit(
        key, lambda shard, token, _now: shard.note(key.encode(), token), error
    )


async def test_a_key_goes_to_the_shard_of_its_partition() -> None:
    world = World()
    coordinator = world.register()
    world.counts[TOPIC] = 2
    for index in (0, 1):
        world.lead(index)
    world.runtime.leadership_changed({TOPIC})
    keys = [f"key-{n}" for n in range(20)]
    for key in keys:
        assert note(coordinator, key) == ("noted", key.encode())
    tables = [set(host.shard.table) for host in coordinator.hosts]
    assert all(tables)
    assert sorted(tables[0] | tables[1]) == sorted(key.encode() for key in keys)
    for key in keys:
        assert key.encode() in tables[coordinator.partition_of(key)]


async def test_a_partition_that_another_broker_leads_is_not_served() -> None:
    world = World()
    coordinator = world.register(partitions=1)
    assert note(coordinator, "a") == ("error", ErrorCode.NOT_COORDINATOR)
    world.lead(0)
    world.partitions[TOPIC][0].apply(state(topic=TOPIC, leader=SECOND, epoch=1))
    world.runtime.leadership_changed({TOPIC})
    assert note(coordinator, "a") == ("error", ErrorCode.NOT_COORDINATOR)


async def test_coordinators_of_other_topics_hear_nothing() -> None:
    world = World()
    ours, theirs = world.register(), world.register("__other")
    world.lead(0)
    world.lead(0, "__other")
    world.runtime.leadership_changed({"__other", "t"})
    assert len(ours.hosts) == 0
    assert len(theirs.hosts) == 1


async def test_an_old_log_is_replayed_before_anything_is_served() -> None:
    world = World()
    coordinator = world.register(partitions=1)
    world.lead(0, records=5)
    world.runtime.leadership_changed({TOPIC})
    assert note(coordinator, "a") == ("error", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    await world.settle()
    (host,) = coordinator.hosts
    assert host.shard.replayed == [b"key"] * 5
    assert note(coordinator, "a") == ("noted", b"a")


async def test_a_shard_that_cannot_be_loaded_keeps_no_other_from_being_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def replay(key: bytes, value: bytes | None) -> None:
        raise ValueError("makes no sense to this shard")

    world = World()
    coordinator = world.register(partitions=2)
    world.lead(0, records=1)
    world.lead(1, records=1)
    world.runtime.leadership_changed({TOPIC})
    monkeypatch.setattr(next(iter(coordinator.hosts)).shard, "replay", replay)
    await world.settle()
    assert [host.state for host in coordinator.hosts] == [HostState.CLOSED, HostState.ACTIVE]


async def test_leadership_that_stays_keeps_its_shard_and_a_new_epoch_has_a_new_one() -> None:
    world = World()
    coordinator = world.register(partitions=1)
    world.lead(0)
    world.runtime.leadership_changed({TOPIC})
    (first,) = coordinator.hosts
    note(coordinator, "a")
    world.runtime.leadership_changed({TOPIC})
    assert list(coordinator.hosts) == [first]
    world.partitions[TOPIC][0].apply(state(topic=TOPIC, epoch=1))
    world.runtime.leadership_changed({TOPIC})
    await world.settle()
    (second,) = coordinator.hosts
    assert (first.state, second.state) == (HostState.CLOSED, HostState.ACTIVE)
    assert second.shard.table == {b"a": b"v"}


async def test_leadership_lost_in_the_middle_of_loading_ends_it() -> None:
    world = World()
    coordinator = world.register(partitions=1)
    world.lead(0, records=50)
    world.runtime.leadership_changed({TOPIC})
    (host,) = coordinator.hosts
    for _ in range(3):
        await asyncio.sleep(0)
    assert 0 < len(host.shard.replayed) < 50
    world.partitions[TOPIC][0].apply(state(topic=TOPIC, leader=SECOND, epoch=1))
    world.runtime.leadership_changed({TOPIC})
    assert note(coordinator, "a") == ("error", ErrorCode.NOT_COORDINATOR)
    await world.settle()
    assert not host.shard.loaded
    assert len(host.shard.replayed) < 50


async def test_leadership_lost_and_won_while_loading_loads_anew() -> None:
    world = World()
    coordinator = world.register(partitions=1)
    world.lead(0, records=50)
    world.runtime.leadership_changed({TOPIC})
    await asyncio.sleep(0)
    world.partitions[TOPIC][0].apply(state(topic=TOPIC, epoch=2))
    world.runtime.leadership_changed({TOPIC})
    await world.settle()
    (host,) = coordinator.hosts
    assert host.shard.replayed == [b"key"] * 50
    assert host.leader_epoch == 2
    assert note(coordinator, "a") == ("noted", b"a")


async def test_work_reaches_every_shard_that_serves() -> None:
    world = World()
    coordinator = world.register()
    for index in range(3):
        world.lead(index, records=index)
    world.runtime.leadership_changed({TOPIC})
    worked: list[Notes] = []

    def work(shard: Notes, _now_ms: int) -> Outcome:
        worked.append(shard)
        return Outcome()

    coordinator.run(work)
    loaded = [host.shard for host in coordinator.hosts if host.state is HostState.ACTIVE]
    assert worked == loaded
    assert len(loaded) == 1
    await world.settle()
    coordinator.run(work)
    assert len(worked) == 4


async def test_a_stopped_runtime_serves_nobody_and_takes_nothing_up() -> None:
    world = World()
    coordinator = world.register(partitions=1)
    world.lead(0)
    world.runtime.leadership_changed({TOPIC})
    world.runtime.stop()
    assert note(coordinator, "a") == ("error", ErrorCode.NOT_COORDINATOR)
    world.runtime.leadership_changed({TOPIC})
    assert len(coordinator.hosts) == 0


# The topic ---------------------------------------------------------------------------------------


async def test_the_topic_is_created_once_however_many_ask() -> None:
    world = World()
    coordinator = world.register(partitions=7)
    existed = coordinator.topic.exists
    assert coordinator.topic.partitions == 7, "what it will have"
    await asyncio.gather(*(coordinator.topic.create() for _ in range(3)))
    assert [topic.name for topic in world.created] == [TOPIC]
    assert (existed, coordinator.topic.exists) == (False, True)
    world.counts[TOPIC] = 9
    assert coordinator.topic.partitions == 9


async def test_a_topic_that_cannot_be_created_makes_the_coordinator_unavailable() -> None:
    world = World()
    topic = world.register().topic
    world.result = ErrorCode.INVALID_REPLICATION_FACTOR
    with pytest.raises(KafkaError) as caught:
        await topic.create()
    assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.result = ErrorCode.TOPIC_ALREADY_EXISTS
    await topic.create()


async def test_why_a_topic_cannot_be_created_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    topic = world.register().topic
    codes = [ErrorCode.INVALID_REPLICATION_FACTOR] * 3 + [ErrorCode.POLICY_VIOLATION]
    for code in codes:
        world.result = code
        with pytest.raises(KafkaError):
            await topic.create()
    assert [message.rpartition(" ")[2] for message in caplog.messages] == [
        "INVALID_REPLICATION_FACTOR",
        "POLICY_VIOLATION",
    ]


def test_an_internal_topic_is_known_by_its_name() -> None:
    world = World()
    coordinator = world.register()
    assert world.runtime.topic(TOPIC) is coordinator.topic
    assert world.runtime.topic("t") is None

"""A broker whose coordination store is elsewhere: the connection breaks, and sessions end.

A write that was under way when a connection broke may have been made or not, and nobody says. What
the broker then tells its clients, and what it does next, must be true either way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import pytest

from moldau.client.admin import AsyncAdmin, ConfigChange, ConfigResource, NewTopic, ResourceType
from moldau.client.admin.types import Outcome
from moldau.client.consumer import AsyncConsumer
from moldau.client.producer import AsyncProducer
from moldau.coordination import paths
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import Machine
from moldau.model import TopicPartition
from moldau.testing.simulation.broker import SimulatedBroker
from moldau.testing.simulation.coordination import SimulatedEnsemble
from moldau.testing.simulation.simulation import Simulation

MOMENTS = 10
"""So many breaks of whatever is done: on the way there, at the store, on the way back."""


class World:
    """A broker, its coordination store, and a client's machine."""

    def __init__(self, seed: int, settings: Mapping[str, str] | None = None) -> None:
        self.simulation = Simulation(seed)
        self.ensemble = SimulatedEnsemble(self.simulation)
        self.ensemble.slowest = 0.05
        self.broker = SimulatedBroker(
            self.simulation,
            settings={
                "zookeeper.session.timeout.ms": 6_000,
                "auto.create.topics.enable": "false",
                **(settings or {}),
            },
            open_coordination=self.ensemble.open,
        )
        self.random = self.simulation.new_random("moments")
        self.machine: Machine

    def run(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def live() -> None:
            await self.ensemble.start()
            client = self.simulation.node("client")
            self.machine = client.boot()
            await client.run(story())

        with self.simulation:
            self.simulation.run(live())

    def admin(self) -> AsyncAdmin:
        return AsyncAdmin(
            machine=self.machine,
            bootstrap_servers=self.broker.bootstrap_servers,
            request_timeout_ms=5_000,
        )

    async def break_during(self, work: Awaitable[object], within: float) -> None:
        """Lose the connection at some moment of the work."""
        working = asyncio.ensure_future(work)
        await asyncio.sleep(self.random.random() * within)
        self.ensemble.lose_connections(self.random.random())
        await working


@pytest.fixture(params=range(MOMENTS))
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


async def _done(
    ask: Callable[[], Awaitable[Sequence[Outcome[Any]]]], already: ErrorCode | None = None
) -> None:
    """Ask until it is done; ``already`` says that an earlier attempt has done it."""
    while True:
        try:
            (await ask())[0].get()
        except KafkaError as error:
            if error.retriable and error.code is not already:
                continue
            if error.code is not already:
                raise
        return


async def _create(admin: AsyncAdmin, topic: str) -> None:
    topics = [NewTopic(topic, 2)]
    await _done(lambda: admin.create_topics(topics), ErrorCode.TOPIC_ALREADY_EXISTS)


def test_a_topic_is_there_whenever_the_connection_broke_while_it_was_made(world: World) -> None:
    async def story() -> None:
        await world.broker.start()
        async with world.admin() as admin:
            await world.break_during(_create(admin, "orders"), within=0.3)
            (topic,) = await admin.describe_topics(["orders"])
            assert len(topic.get().partitions) == 2
        async with AsyncProducer(
            machine=world.machine, bootstrap_servers=world.broker.bootstrap_servers
        ) as producer:
            for partition in range(2):
                await (await producer.send("orders", b"value", partition=partition))

    world.run(story)


def test_a_topic_is_gone_whenever_the_connection_broke_while_it_was_deleted(world: World) -> None:
    async def delete(admin: AsyncAdmin) -> None:
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await _done(lambda: admin.delete_topics(["orders"]), missing)

    async def story() -> None:
        await world.broker.start()
        async with world.admin() as admin:
            await _create(admin, "orders")
            await world.break_during(delete(admin), within=0.4)
            # Decided is not done: a controller that has to take over again finishes it later.
            await asyncio.sleep(10.0)
            await _create(admin, "orders")
            (topic,) = await admin.describe_topics(["orders"])
            assert len(topic.get().partitions) == 2

    world.run(story)


def test_settings_are_what_they_were_set_to_whenever_the_connection_broke(world: World) -> None:
    resource = ConfigResource(ResourceType.TOPIC, "orders")

    async def alter(admin: AsyncAdmin) -> None:
        changes = {resource: [ConfigChange("retention.bytes", "12345")]}
        await _done(lambda: admin.alter_configs(changes))

    async def story() -> None:
        await world.broker.start()
        async with world.admin() as admin:
            await _create(admin, "orders")
            await world.break_during(alter(admin), within=0.2)
            (entries,) = await admin.describe_configs([resource])
            values = {entry.name: entry.value for entry in entries.get()}
            assert values["retention.bytes"] == "12345"

    world.run(story)


def test_a_broker_starts_whenever_the_connection_breaks_meanwhile(world: World) -> None:
    async def story() -> None:
        await world.break_during(world.broker.start(), within=1.5)
        async with world.admin() as admin:
            await _create(admin, "orders")

    world.run(story)


def test_a_broker_that_was_killed_waits_for_the_end_of_what_it_had_registered() -> None:
    world = World(1)

    async def story() -> None:
        await world.broker.start()
        async with world.admin() as admin:
            await _create(admin, "orders")
            world.broker.kill()
            killed_at = world.simulation.time
            await world.broker.start()
            assert 2.0 < world.simulation.time - killed_at < 9.0
            (topic,) = await admin.describe_topics(["orders"])
            assert topic.get().partitions[0].leader is not None

    world.run(story)


def test_what_was_deleted_while_a_broker_was_away_does_not_come_back() -> None:
    """An ensemble loses nothing: what it does not know is of no topic any more."""
    world = World(1, {"stray.topics.policy": "adopt"})

    async def story() -> None:
        await world.broker.start()
        async with world.admin() as admin:
            await _create(admin, "orders")
            await world.broker.stop()
            store = world.ensemble.store.session()
            for number in range(2):
                await store.delete(paths.partition_state("orders", number))
                await store.delete(paths.partition("orders", number))
            for path in (paths.partitions, paths.topic, paths.topic_config):
                await store.delete(path("orders"))
            await world.broker.start()
            assert not await admin.list_topics()
            await _create(admin, "orders")
            (topic,) = await admin.describe_topics(["orders"])
            assert topic.get().partitions[0].leader is not None

    world.run(story)


def test_a_broker_whose_session_ended_joins_again_as_often_as_needed() -> None:
    world = World(1)
    partition = TopicPartition("orders", 0)

    async def story() -> None:
        await world.broker.start()
        servers = world.broker.bootstrap_servers
        async with world.admin() as admin:
            await _create(admin, "orders")
            for nth in range(3):
                await world.ensemble.expire_sessions()
                async with AsyncProducer(
                    machine=world.machine, bootstrap_servers=servers
                ) as producer:
                    await (await producer.send("orders", b"value", partition=0))
                await _create(admin, f"payments{nth}")
            async with AsyncConsumer(machine=world.machine, bootstrap_servers=servers) as consumer:
                assert await consumer.end_offsets([partition]) == {partition: 3}

    world.run(story)


def test_a_broker_joins_again_whenever_its_session_ends(world: World) -> None:
    """Also while it starts, and while it is about to join again."""

    async def expire_at_any_time() -> None:
        for _ in range(3):
            await asyncio.sleep(world.random.random() * 0.5)
            await world.ensemble.expire_sessions()

    async def story() -> None:
        await world.broker.start()
        async with world.admin() as admin:
            expiring = asyncio.ensure_future(expire_at_any_time())
            for nth in range(5):
                await _create(admin, f"topic{nth}")
            await expiring
            await _create(admin, "last")

    world.run(story)


def test_a_broker_that_was_cut_off_for_long_joins_again_when_it_can() -> None:
    world = World(1)

    async def story() -> None:
        await world.broker.start()
        async with world.admin() as admin:
            world.ensemble.lose_connections(60.0)
            await asyncio.sleep(61.0)
            await _create(admin, "orders")

    world.run(story)

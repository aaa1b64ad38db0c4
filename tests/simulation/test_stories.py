"""What lives have brought to light, told by itself: each was a fault of the broker or the client.

Others are told where they belong, without a world around them:

- ``coordinators/test_requests.py``: answers that are gathered twice
- ``replication``: records that are seen before they are durable, or not seen after a start
- ``consumer/test_consumer_protocol_member.py``: the assignment that was in a lost answer
- ``listener/test_dispatcher.py``: logs that lose their end under a listener
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from moldau.client.admin import AsyncAdmin, NewTopic
from moldau.client.consumer import AsyncConsumer
from moldau.client.errors import CommitFailedError
from moldau.client.producer import AsyncProducer
from moldau.model import TopicPartition
from moldau.testing.simulation.broker import SimulatedBroker
from moldau.testing.simulation.simulation import Simulation

T = TypeVar("T")

PARTITION = TopicPartition("orders", 0)


class World:
    """A broker with one topic, and clients on nodes of their own."""

    def __init__(self, simulation: Simulation) -> None:
        self.network = simulation.network
        self.settings: dict[str, object] = {"log.flush.interval.messages": 1}
        self._simulation = simulation

    def run(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.broker = SimulatedBroker(self._simulation, settings=self.settings)

        async def run() -> None:
            await self.broker.start()
            await self.on("admin", self._create_topic)
            await story()

        self._simulation.run(run())

    async def on(self, name: str, work: Callable[[dict[str, Any]], Coroutine[Any, Any, T]]) -> T:
        """Run a program that is handed what every client needs; returns what it returns."""
        node = self._simulation.node(name)
        client = {"machine": node.boot(), "bootstrap_servers": self.broker.bootstrap_servers}
        try:
            return await node.run(work(client))
        finally:
            node.exit()

    async def _create_topic(self, client: dict[str, Any]) -> None:
        async with AsyncAdmin(**client) as admin:
            (outcome,) = await admin.create_topics([NewTopic("orders", 1)])
            outcome.get()

    async def end_offset(self) -> int:
        """Where readers think the partition ends."""

        async def ask(client: dict[str, Any]) -> int:
            async with AsyncConsumer(**client) as consumer:
                return (await consumer.end_offsets([PARTITION]))[PARTITION]

        return await self.on("reader", ask)


@pytest.fixture
def world() -> Iterator[World]:
    with Simulation(1) as simulation:
        yield World(simulation)


def test_a_power_cut_after_the_first_start_takes_no_topic(world: World) -> None:
    async def story() -> None:
        world.broker.power_cut()
        await world.broker.start()
        assert await world.end_offset() == 0

    world.run(story)


def test_batches_in_flight_at_a_clean_restart_are_stored_once(world: World) -> None:
    async def send(client: dict[str, Any]) -> None:
        async with AsyncProducer(**client, linger_ms=0, request_timeout_ms=60_000) as producer:
            await (await producer.send("orders", b"0", partition=0))
            world.network.cut(world.broker.node.name, "producer", both_ways=False)
            for number in range(1, 4):
                await producer.send("orders", b"%d" % number, partition=0)
                await asyncio.sleep(0.5)  # a batch of its own
            await world.broker.stop()
            world.network.reset_connections(world.broker.node.name, "producer")
            world.network.heal()
            await world.broker.start()
            await producer.flush()

    async def story() -> None:
        await world.on("producer", send)
        assert await world.end_offset() == 4

    world.run(story)


def test_a_member_whose_group_went_with_the_power_joins_anew(world: World) -> None:
    async def send(client: dict[str, Any]) -> None:
        async with AsyncProducer(**client) as producer:
            await (await producer.send("orders", b"value", partition=0))

    async def read(client: dict[str, Any]) -> None:
        options: dict[str, Any] = {"group_protocol": "consumer", "auto_offset_reset": "earliest"}
        async with AsyncConsumer(
            **client, **options, group_id="group", enable_auto_commit=False
        ) as consumer:
            consumer.subscribe(["orders"])
            assert await consumer.poll(timeout=30)
            world.broker.power_cut()
            await world.broker.start()
            with pytest.raises(CommitFailedError):
                await consumer.commit({PARTITION: 1})
            await world.on("producer", send)
            assert await consumer.poll(timeout=30)

    async def story() -> None:
        await world.on("producer", send)
        await world.on("member", read)

    world.settings["log.flush.interval.messages"] = 2**63 - 1
    world.run(story)

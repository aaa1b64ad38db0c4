"""Three brokers, every record on all of them: what happens to it when brokers come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.client.admin import AsyncAdmin, NewTopic
from moldau.client.consumer import AsyncConsumer
from moldau.client.producer import AsyncProducer
from moldau.model import TopicPartition
from moldau.testing.simulation import SimulatedCluster, Simulation

PARTITION = TopicPartition("orders", 0)

Client = dict[str, Any]
Story = Callable[[SimulatedCluster, Client], Coroutine[Any, Any, None]]


def run(story: Story, seed: int = 1, **settings: object) -> None:
    """Tell a story of a cluster with one topic, on a client's machine."""
    simulation = Simulation(seed)
    simulation.loop.time_limit = 900
    cluster = SimulatedCluster(
        simulation, settings={name.replace("_", "."): value for name, value in settings.items()}
    )

    async def live() -> None:
        await cluster.start()
        await cluster.all_in()
        node = simulation.node("client")
        client = {"machine": node.boot(), "bootstrap_servers": cluster.bootstrap_servers}
        await node.run(create_topic(client))
        await node.run(story(cluster, client))

    with simulation:
        simulation.run(live())


async def create_topic(client: Client) -> None:
    async with AsyncAdmin(**client) as admin:
        (outcome,) = await admin.create_topics([NewTopic("orders", 1, 3)])
        outcome.get()


async def produce(producer: AsyncProducer, first: int, last: int) -> None:
    sent = [
        await producer.send("orders", b"%d" % number, partition=0) for number in range(first, last)
    ]
    await asyncio.gather(*sent)


async def consume(client: Client, count: int) -> list[int]:
    async with AsyncConsumer(**client, auto_offset_reset="earliest") as consumer:
        consumer.assign([PARTITION])
        values: list[int] = []
        while len(values) < count:
            for records in (await consumer.poll(1.0)).values():
                values += [int(record.value or b"") for record in records]
        return values


async def level(cluster: SimulatedCluster) -> None:
    """Wait until every broker has all of the partition, and knows that it is committed."""

    async def wrong() -> list[str]:
        logs = [cluster.replica(node_id, "orders") for node_id in (1, 2, 3)]
        ends = {log and (log.high_watermark, log.log.log_end_offset) for log in logs}
        return [] if len(ends) == 1 and None not in ends else [f"{ends}"]

    await cluster.until(wrong, 60.0)


def test_what_is_acknowledged_is_on_all_in_sync_replicas() -> None:
    async def story(cluster: SimulatedCluster, client: Client) -> None:
        async with AsyncProducer(**client, acks="all") as producer:
            await produce(producer, 0, 50)
            await cluster.right()
            logs = [cluster.replica(node_id, "orders") for node_id in (1, 2, 3)]
            assert [log and log.log.log_end_offset for log in logs] == [50] * 3
            assert [log and log.high_watermark for log in logs] == [50] * 3
        assert await consume(client, 50) == list(range(50))

    run(story)


def test_a_killed_leader_takes_nothing_with_it() -> None:
    async def story(cluster: SimulatedCluster, client: Client) -> None:
        async with AsyncProducer(**client, acks="all", delivery_timeout_ms=120_000) as producer:
            await produce(producer, 0, 50)
            leader = await cluster.leader_of("orders")
            assert leader is not None
            leader.kill()
            await produce(producer, 50, 100)
            await leader.start()
            await level(cluster)
            await produce(producer, 100, 120)
            await level(cluster)
        assert await consume(client, 120) == list(range(120))

    run(story)

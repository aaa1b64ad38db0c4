"""Three brokers, every record on all of them: what happens to it when brokers come and go."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau.broker.fetch_reading import Fetch, Response
from moldau.broker.follower_session import LOOKED_AT_IN_TURN
from moldau.client.admin import AsyncAdmin, NewTopic
from moldau.client.consumer import AsyncConsumer
from moldau.client.producer import AsyncProducer
from moldau.model import TopicPartition
from moldau.records.native import is_compiled
from moldau.replication import Partition, PartitionRead
from moldau.testing.simulation import SimulatedCluster, Simulation
from moldau.testing.simulation.cluster import LATE

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


def test_what_is_acknowledged_is_on_all_in_sync_replicas() -> None:
    async def story(cluster: SimulatedCluster, client: Client) -> None:
        async with AsyncProducer(**client, acks="all") as producer:
            await produce(producer, 0, 50)
            await asyncio.sleep(LATE)
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
            await cluster.right()
            await produce(producer, 100, 120)
            await cluster.right()
        assert await consume(client, 120) == list(range(120))

    run(story)


def test_each_leader_in_turn_can_be_killed() -> None:
    async def story(cluster: SimulatedCluster, client: Client) -> None:
        async with AsyncProducer(**client, acks="all", delivery_timeout_ms=300_000) as producer:
            for turn in range(4):
                leader = await cluster.leader_of("orders")
                assert leader is not None
                sending = asyncio.ensure_future(produce(producer, 30 * turn, 30 * turn + 30))
                await asyncio.sleep(0.002 * turn)
                leader.kill()
                await sending
                await leader.start()
                await cluster.right()
        assert await consume(client, 120) == list(range(120))

    run(story)


def test_a_power_cut_of_the_leader_takes_nothing_that_was_acknowledged() -> None:
    async def story(cluster: SimulatedCluster, client: Client) -> None:
        async with AsyncProducer(**client, acks="all", delivery_timeout_ms=300_000) as producer:
            for turn in range(3):
                sending = asyncio.ensure_future(produce(producer, 30 * turn, 30 * turn + 30))
                await asyncio.sleep(0.003 * turn)
                leader = await cluster.leader_of("orders")
                assert leader is not None
                leader.power_cut()
                await sending
                await leader.start()
                await cluster.right()
        assert await consume(client, 90) == list(range(90))

    run(story)


@pytest.mark.skipif(is_compiled(), reason="machine code does not look up what it calls")
def test_a_broker_whose_disk_failed_is_not_taken_for_one_that_has_everything() -> None:
    async def story(cluster: SimulatedCluster, client: Client) -> None:
        before = (await cluster.stored()).brokers[2]
        cluster[2].kill()
        await cluster[2].start()
        killed = (await cluster.stored()).brokers[2]
        assert killed.intact_since == before.intact_since, "nobody loses by that"
        logs = cluster.running[2].logs
        cluster[2].node.disk.fail(errno.EIO, operations=frozenset({"append", "sync"}))
        for path in logs.online_dirs:
            logs.fail_dir(path, "EIO")
        cluster[2].node.disk.heal()
        cluster[2].kill()
        await cluster[2].start()
        failed = (await cluster.stored()).brokers[2]
        assert failed.intact_since == failed.epoch, "what it had not synced may be gone"
        await cluster.right()

    run(story)


def test_quiet_partitions_cost_a_follower_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic of very many partitions, one of which is written to."""
    reads = [0]
    answered = [0]
    read, told = Partition.read, Fetch.told

    def count_read(self: Partition, *args: Any, **options: Any) -> PartitionRead:
        reads[0] += options.get("follower_id", -1) >= 0
        return read(self, *args, **options)

    def count_answer(self: Fetch, throttle_ms: int) -> Response:
        answered[0] += 1
        return told(self, throttle_ms)

    async def story(cluster: SimulatedCluster, client: Client) -> None:
        async with AsyncAdmin(**client) as admin:
            (outcome,) = await admin.create_topics([NewTopic("quiet", 150, 3)])
            outcome.get()
        await cluster.right()
        await asyncio.sleep(10)
        async with AsyncProducer(**client, acks="all", linger_ms=0) as producer:
            await produce(producer, 0, 1)
            reads[0] = answered[0] = 0
            for number in range(1, 60):
                await produce(producer, number, number + 1)
        # Each fetch looks at what is new, and at some of the others in turn.
        assert reads[0] <= answered[0] * (LOOKED_AT_IN_TURN + 3)

    monkeypatch.setattr(Partition, "read", count_read)
    monkeypatch.setattr(Fetch, "told", count_answer)
    run(story)

"""Three brokers, one topic: who is in sync, and what is committed while somebody is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import pytest
from tests.simulation.test_replication import Client, consume, create_topic, produce

from moldau.client.admin import AsyncAdmin
from moldau.client.producer import AsyncProducer
from moldau.coordination.znodes import StateNode
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.replication import Partition
from moldau.testing.simulation import SimulatedCluster, Simulation

ORDERS = TopicPartition("orders", 0)


class Cut:
    """The network of a cluster, which a story cuts and heals."""

    def __init__(self, simulation: Simulation, cluster: SimulatedCluster) -> None:
        self._network = simulation.network
        self._cluster = cluster

    def between(self, first: int, second: int) -> None:
        nodes = self._cluster.brokers
        self._network.cut(nodes[first].node.name, nodes[second].node.name)

    def heal(self) -> None:
        self._network.heal()


Story: TypeAlias = Callable[[SimulatedCluster, Client, Cut], Coroutine[Any, Any, None]]


def run(story: Story, seed: int = 1) -> None:
    simulation = Simulation(seed)
    simulation.loop.time_limit = 900
    cluster = SimulatedCluster(simulation)
    cut = Cut(simulation, cluster)

    async def live() -> None:
        await cluster.start()
        await cluster.all_in()
        node = simulation.node("client")
        client = {"machine": node.boot(), "bootstrap_servers": cluster.bootstrap_servers}
        await node.run(create_topic(client))
        await cluster.right()
        await node.run(story(cluster, client, cut))

    with simulation:
        simulation.run(live())


async def stored(cluster: SimulatedCluster) -> StateNode:
    """What the store says of the partition."""
    return (await cluster.stored()).topics["orders"].states[0][0]


async def in_sync(cluster: SimulatedCluster, *expected: int) -> None:
    """Wait until the store, and the leader, say that just these are in sync."""

    async def wrong() -> list[str]:
        state = await stored(cluster)
        known = cluster.replica(state.leader, "orders")
        told = [] if known is None else sorted(known.isr)
        return [] if sorted(state.isr) == told == sorted(expected) else [f"{state} {told}"]

    await cluster.until(wrong, 60.0)


async def leader_and_followers(cluster: SimulatedCluster) -> tuple[int, int, int]:
    leader = (await stored(cluster)).leader
    first, second = [number for number in (1, 2, 3) if number != leader]
    return leader, first, second


def test_a_follower_out_of_reach_leaves_by_its_lag_and_comes_back_when_it_has_caught_up() -> None:
    async def story(cluster: SimulatedCluster, client: Client, cut: Cut) -> None:
        leader, first, second = await leader_and_followers(cluster)
        async with AsyncProducer(**client, acks="all", delivery_timeout_ms=60_000) as producer:
            await produce(producer, 0, 10)
            if cluster[second] is await cluster.controller():  # which has to be asked
                first, second = second, first
            cut.between(leader, second)
            await produce(producer, 10, 20)  # waits until it has left
            assert sorted((await stored(cluster)).isr) == sorted([leader, first])
            cut.heal()
            await in_sync(cluster, 1, 2, 3)
            await produce(producer, 20, 30)
        assert await consume(client, 30) == list(range(30))
        changes = cluster.running[leader].isr_changes
        assert changes is not None
        assert (changes.shrinks, changes.expands) == (1, 1)

    run(story)


def test_nobody_leaves_while_nothing_happens() -> None:
    async def story(cluster: SimulatedCluster, client: Client, _cut: Cut) -> None:
        leader, _, _ = await leader_and_followers(cluster)
        async with AsyncProducer(**client, acks="all") as producer:
            await produce(producer, 0, 10)
            await asyncio.sleep(30)  # ten times the lag that is allowed
            await produce(producer, 10, 11)
            await asyncio.sleep(30)
        changes = cluster.running[leader].isr_changes
        assert changes is not None
        assert (changes.shrinks, changes.expands, changes.failures) == (0, 0, 0)

    run(story)


def test_too_few_replicas_take_nothing_and_lose_nothing() -> None:
    async def story(cluster: SimulatedCluster, client: Client, _cut: Cut) -> None:
        leader, first, second = await leader_and_followers(cluster)
        async with AsyncProducer(**client, acks="all", delivery_timeout_ms=40_000) as producer:
            await produce(producer, 0, 10)
            for number in (first, second):
                cluster[number].kill()
            await in_sync(cluster, leader)
            with pytest.raises(KafkaError) as refused:
                await produce(producer, 10, 11)
            assert refused.value.code in (
                ErrorCode.NOT_ENOUGH_REPLICAS,
                ErrorCode.REQUEST_TIMED_OUT,
            )
            partition = cluster.replica(leader, "orders")
            assert partition is not None
            assert partition.high_watermark == 10
            for number in (first, second):
                await cluster[number].start()
            await in_sync(cluster, 1, 2, 3)
            await produce(producer, 11, 12)

    run(story)


def test_a_deletion_is_answered_when_all_replicas_have_deleted() -> None:
    async def story(cluster: SimulatedCluster, client: Client, _cut: Cut) -> None:
        async with AsyncProducer(**client, acks="all", linger_ms=0) as producer:
            for number in range(10):
                await produce(producer, number, number + 1)
        async with AsyncAdmin(**client) as admin:
            (deleted,) = await admin.delete_records({ORDERS: 4})
            assert deleted.get() == 4
        replicas = [cluster.replica(number, "orders") for number in (1, 2, 3)]
        assert [_start(replica) for replica in replicas] == [4, 4, 4]

    run(story)


def _start(replica: Partition | None) -> int:
    assert replica is not None
    return replica.log.log_start_offset


def test_a_leader_cut_off_from_all_others_commits_nothing_more() -> None:
    async def story(cluster: SimulatedCluster, client: Client, cut: Cut) -> None:
        leader, first, second = await leader_and_followers(cluster)
        partition = cluster.replica(leader, "orders")
        assert partition is not None
        async with AsyncProducer(**client, acks="all", delivery_timeout_ms=90_000) as producer:
            await produce(producer, 0, 10)
            cut.between(leader, first)
            cut.between(leader, second)
            sending = asyncio.ensure_future(produce(producer, 10, 20))
            await asyncio.sleep(20)
            assert partition.high_watermark in (10, 20)
            cut.heal()
            await sending
            await in_sync(cluster, 1, 2, 3)
        assert await consume(client, 20) == list(range(20))

    run(story)

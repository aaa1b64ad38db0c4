"""Three brokers, one of which does not hear the controller, or hears it late: the others go on, and
in the end all know the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from moldau.client.admin import AsyncAdmin, NewTopic
from moldau.client.producer import AsyncProducer
from moldau.controller import writes
from moldau.controller.outbox import Outbox
from moldau.coordination import paths
from moldau.coordination.store import Check
from moldau.errors import KafkaError
from moldau.testing.simulation import (
    NotRightError,
    SimulatedBroker,
    SimulatedCluster,
    Simulation,
)

Client = dict[str, Any]
Story = Callable[[Simulation, SimulatedCluster, Client], Coroutine[Any, Any, None]]


def run(story: Story, seed: int = 1, session_timeout: float = 60.0) -> None:
    """Tell a story of a cluster on a client's machine; the client knows the controller."""
    simulation = Simulation(seed)
    simulation.loop.time_limit = 900
    cluster = SimulatedCluster(simulation, session_timeout=session_timeout)

    async def live() -> None:
        await cluster.start()
        await cluster.all_in()
        controller = await cluster.controller()
        assert controller is not None
        node = simulation.node("client")
        client = {"machine": node.boot(), "bootstrap_servers": controller.bootstrap_servers}
        await node.run(story(simulation, cluster, client))

    with simulation:
        simulation.run(live())


async def others(cluster: SimulatedCluster) -> list[SimulatedBroker]:
    controller = await cluster.controller()
    return [broker for broker in cluster.brokers.values() if broker is not controller]


async def create(admin: AsyncAdmin, name: str, partitions: int = 3) -> None:
    (outcome,) = await admin.create_topics([NewTopic(name, partitions, 3)])
    outcome.get()


def knows(broker: SimulatedBroker, topic: str) -> bool:
    assert broker.server is not None
    return topic in broker.server.broker.metadata.topics


def log_dir(broker: SimulatedBroker) -> str:
    assert broker.server is not None
    (directory,) = broker.server.broker.logs.online_dirs
    return directory


def test_a_paused_broker_delays_nobody() -> None:
    async def story(simulation: Simulation, cluster: SimulatedCluster, client: Client) -> None:
        paused, other = await others(cluster)
        async with AsyncAdmin(**client) as admin:
            await create(admin, "before")
            paused.node.pause(20)
            began = simulation.time
            await create(admin, "first")
            assert simulation.time - began < 2, "whoever asked waits for a second"
            assert knows(other, "first")
            assert not knows(paused, "first")
            began = simulation.time
            await create(admin, "second")
            await admin.create_partitions({"first": 5})
            assert simulation.time - began < 0.5, "and not again"
            assert knows(other, "second")
            await asyncio.sleep(20)
            await cluster.right()
            assert knows(paused, "second")

    run(story)


def test_a_broker_that_the_controller_cannot_reach_hears_everything_when_it_can() -> None:
    async def story(simulation: Simulation, cluster: SimulatedCluster, client: Client) -> None:
        deaf, other = await others(cluster)
        controller = await cluster.controller()
        assert controller is not None
        async with AsyncAdmin(**client) as admin:
            await create(admin, "gone")
            await create(admin, "stays")
            simulation.network.cut(controller.node.name, deaf.node.name)
            (outcome,) = await admin.delete_topics(["gone"])
            outcome.get()
            await create(admin, "made")
            assert knows(other, "made")
            assert not knows(other, "gone")
            assert knows(deaf, "gone")
            assert deaf.node.disk.is_dir(f"{log_dir(deaf)}/gone-0")
            assert (await cluster.stored()).deleting == {"gone"}
            simulation.network.heal()
            await cluster.right()
            assert knows(deaf, "made")
            assert not knows(deaf, "gone")
            assert not deaf.node.disk.is_dir(f"{log_dir(deaf)}/gone-0")

    run(story)


def test_it_would_not_if_what_it_missed_were_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(outbox: Outbox) -> None:
        outbox._under_way = None

    async def story(simulation: Simulation, cluster: SimulatedCluster, client: Client) -> None:
        deaf, _ = await others(cluster)
        controller = await cluster.controller()
        assert controller is not None
        async with AsyncAdmin(**client) as admin:
            simulation.network.cut(controller.node.name, deaf.node.name)
            await create(admin, "made")
            await asyncio.sleep(10)
            simulation.network.heal()
            with pytest.raises(NotRightError, match="believes of made"):
                await cluster.converged(within=30)

    monkeypatch.setattr(Outbox, "was_lost", forget)
    run(story)


async def change_by_a_deposed_controller(
    simulation: Simulation, cluster: SimulatedCluster, client: Client
) -> None:
    """It does not know yet that another was elected, and is asked for a topic."""
    deposed = await cluster.controller()
    assert deposed is not None
    for other in await others(cluster):
        simulation.network.cut(deposed.node.name, other.node.name)
    cluster.ensemble.delay_answers(deposed.node.name, 2.0)
    await cluster.ensemble.delete(paths.CONTROLLER)
    await asyncio.sleep(0.1)
    assert await cluster.controller() not in (deposed, None)
    async with AsyncAdmin(**client) as admin:
        creating = asyncio.ensure_future(create(admin, "made"))
        await asyncio.sleep(3.0)
        cluster.ensemble.heal()
        simulation.network.heal()
        with suppress(KafkaError):
            await creating


@pytest.mark.parametrize("seed", range(10))
def test_a_controller_that_was_deposed_decides_nothing(seed: int) -> None:
    async def story(simulation: Simulation, cluster: SimulatedCluster, client: Client) -> None:
        await change_by_a_deposed_controller(simulation, cluster, client)
        await cluster.right()

    run(story, seed)


def test_it_would_if_what_it_writes_were_not_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(simulation: Simulation, cluster: SimulatedCluster, client: Client) -> None:
        await change_by_a_deposed_controller(simulation, cluster, client)
        with pytest.raises(NotRightError, match="believes of made"):
            await cluster.converged(within=30)

    monkeypatch.setattr(writes, "fence", lambda _context: Check(paths.CONTROLLER_EPOCH, -1))
    run(story)


def test_a_topic_deleted_and_made_again_while_a_broker_was_down_keeps_its_records() -> None:
    async def story(simulation: Simulation, cluster: SimulatedCluster, client: Client) -> None:
        down, _ = await others(cluster)
        async with AsyncAdmin(**client) as admin:
            await create(admin, "orders", 1)
            down.kill()
            (outcome,) = await admin.delete_topics(["orders"])
            outcome.get()
            await asyncio.sleep(10)
            assert (await cluster.stored()).deleting == {"orders"}, "its name is not free yet"
            await down.start()
            await cluster.right()
            await create(admin, "orders", 1)
            async with AsyncProducer(**client, acks="all") as producer:
                sent = [await producer.send("orders", b"%d" % n, partition=0) for n in range(20)]
                await asyncio.gather(*sent)
            await cluster.right()
            replicas = [cluster.replica(node_id, "orders") for node_id in (1, 2, 3)]
            assert [one and one.log.log_end_offset for one in replicas] == [20, 20, 20]

    run(story, session_timeout=3.0)


@pytest.mark.parametrize("seed", range(8))
def test_brokers_agree_in_the_end_whatever_happens(seed: int) -> None:
    """Topics come and go while brokers are killed, paused and cut off from each other."""

    async def story(simulation: Simulation, cluster: SimulatedCluster, client: Client) -> None:
        random = Random(seed)
        client = {**client, "bootstrap_servers": cluster.bootstrap_servers}
        async with AsyncAdmin(**client, request_timeout_ms=5_000) as admin:
            for _ in range(8):
                trouble(random, simulation, cluster)
                for _ in range(3):
                    with suppress(KafkaError):
                        await change(random, admin)
                await asyncio.sleep(random.uniform(0, 4))
                simulation.network.heal()
                for broker in cluster.brokers.values():
                    if not broker.is_running:
                        await broker.start()
        await cluster.right()

    run(story, seed, session_timeout=3.0)


def trouble(random: Random, simulation: Simulation, cluster: SimulatedCluster) -> None:
    first, second = random.sample(list(cluster.brokers.values()), 2)
    match random.randrange(4):
        case 0:
            first.kill()
        case 1:
            first.node.pause(random.uniform(0, 5))
        case 2:
            simulation.network.cut(first.node.name, second.node.name)
        case 3:
            simulation.network.reset_connections(first.node.name, second.node.name)


async def change(random: Random, admin: AsyncAdmin) -> None:
    name = random.choice("abc")
    if random.random() < 0.6:
        (made,) = await admin.create_topics([NewTopic(name, random.randint(1, 3), 3)])
        made.get()
    else:
        (deleted,) = await admin.delete_topics([name])
        deleted.get()

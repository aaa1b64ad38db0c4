"""Brokers that come, go and come back: registrations, offices, leaders, with real networks between
them but no records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau.client.admin import AsyncAdmin, NewTopic
from moldau.coordination.znodes import StateNode
from moldau.errors import ErrorCode, KafkaError
from moldau.testing.simulation import SimulatedCluster, Simulation

Story = Callable[["World"], Coroutine[Any, Any, None]]


class World:
    def __init__(self, simulation: Simulation, settings: dict[str, object] | None = None) -> None:
        self.simulation = simulation
        self.cluster = SimulatedCluster(
            simulation, settings={"controlled.shutdown.retry.backoff.ms": 500, **(settings or {})}
        )
        self.random = simulation.new_random("moments")
        self.machine = simulation.node("client").boot()

    def admin(self) -> AsyncAdmin:
        return AsyncAdmin(
            machine=self.machine,
            bootstrap_servers=self.cluster.bootstrap_servers,
            request_timeout_ms=10_000,
        )

    async def create(self, name: str, partitions: int = 6, factor: int = 3) -> None:
        async with self.admin() as admin:
            while True:
                (result,) = await admin.create_topics([NewTopic(name, partitions, factor)])
                try:
                    result.get()
                except KafkaError as error:
                    if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                        return
                    if not error.retriable:
                        raise
                else:
                    return

    async def states(self, name: str) -> list[StateNode]:
        topic = (await self.cluster.stored()).topics[name]
        return [state for state, _ in topic.states.values()]

    async def until(self, name: str, wanted: Callable[[StateNode], bool]) -> None:
        """Wait until all partitions of a topic are as they should be."""

        async def wrong() -> list[str]:
            return [str(state) for state in await self.states(name) if not wanted(state)]

        await self.cluster.until(wrong, within=60)


def run(story: Story, seed: int = 1, settings: dict[str, object] | None = None) -> None:
    with Simulation(seed) as simulation:
        simulation.loop.time_limit = 900
        simulation.run(story(World(simulation, settings)))


@pytest.mark.parametrize("seed", range(5))
def test_three_brokers_start_together_whenever_connections_break(seed: int) -> None:
    async def story(world: World) -> None:
        starting = asyncio.ensure_future(world.cluster.start())
        for _ in range(3):
            await asyncio.sleep(world.random.random() * 0.3)
            world.cluster.ensemble.lose_connections(world.random.random() * 0.2)
        await starting
        await world.cluster.all_in()
        await world.create("orders")
        await world.cluster.converged()
        assert {state.leader for state in await world.states("orders")} == {1, 2, 3}

    run(story, seed)


def test_a_broker_that_starts_later_is_told_everything_before_clients_come() -> None:
    async def story(world: World) -> None:
        cluster = world.cluster
        await cluster.ensemble.start()
        await cluster[1].start()
        await cluster[2].start()
        await world.create("orders", factor=2)
        await cluster[3].start()
        assert "orders" in cluster.running[3].metadata.topics
        await cluster.all_in()

    run(story)


@pytest.mark.parametrize("seed", range(3))
def test_sessions_that_end_cost_no_office_for_good(seed: int) -> None:
    async def story(world: World) -> None:
        cluster = world.cluster
        await cluster.start()
        await world.create("orders")
        for nth in range(3):
            await asyncio.sleep(world.random.random())
            await cluster.ensemble.expire_sessions()
            await cluster.all_in()
            await world.create(f"more{nth}")
            await cluster.converged()
        await world.until("orders", lambda state: state.leader > 0)

    run(story, seed)


def test_a_stopping_broker_hands_over_what_it_leads() -> None:
    async def story(world: World) -> None:
        cluster = world.cluster
        await cluster.start()
        await world.create("orders")
        before = [state.leader_epoch for state in await world.states("orders")]
        await cluster[2].stop()
        after = await world.states("orders")
        assert all(state.leader in (1, 3) and 2 not in state.isr for state in after)
        assert all(
            state.leader_epoch <= epoch + 1 for state, epoch in zip(after, before, strict=True)
        )
        await cluster[2].start()
        await cluster.all_in()

    run(story)


def test_the_controller_hands_over_too() -> None:
    async def story(world: World) -> None:
        cluster = world.cluster
        await cluster.start()
        await world.create("orders")
        controller = await cluster.controller()
        assert controller is not None
        stopping = world.simulation.time
        await controller.stop()
        assert world.simulation.time - stopping < 3
        await world.create("payments", factor=2)
        await world.until("orders", lambda state: cluster[state.leader].is_running)

    run(story)


def test_all_brokers_stop_at_once_and_none_waits_for_another() -> None:
    async def story(world: World) -> None:
        cluster = world.cluster
        await cluster.start()
        await world.create("orders")
        stopping = world.simulation.time
        await asyncio.gather(*(broker.stop() for broker in cluster.brokers.values()))
        assert world.simulation.time - stopping < 5
        for broker in cluster.brokers.values():
            await broker.start()
        await world.until("orders", lambda state: state.leader > 0)

    run(story)


def test_a_killed_broker_comes_back_while_it_is_still_registered() -> None:
    async def story(world: World) -> None:
        cluster = world.cluster
        await cluster.start()
        await world.create("orders")
        for broker in (1, 2, 3):
            cluster[broker].kill()
            await cluster[broker].start()
            await cluster.all_in()
        await world.until("orders", lambda state: state.leader > 0)

    run(story)


def test_all_brokers_killed_at_once_lead_again() -> None:
    async def story(world: World) -> None:
        cluster = world.cluster
        await cluster.start()
        await world.create("orders")
        for broker in cluster.brokers.values():
            broker.kill()
        for broker in cluster.brokers.values():
            await broker.start()
        await cluster.all_in()
        await world.until("orders", lambda state: state.leader > 0)

    run(story)


def test_a_broker_that_lost_power_does_not_lead_before_one_that_did_not() -> None:
    """All are gone. The first to come back has lost its latest records, the next has not."""

    async def story(world: World) -> None:
        cluster = world.cluster
        await cluster.start()
        await world.create("orders")
        for broker in (2, 3):
            cluster[broker].kill()
        cluster[1].power_cut()
        await cluster[1].start()
        await world.until("orders", lambda state: state.leader == -1 and 1 not in state.isr)
        await cluster[3].start()
        await world.until("orders", lambda state: state.leader == 3)

    run(story)


def test_whoever_led_last_leads_when_all_lost_power() -> None:
    async def story(world: World) -> None:
        cluster = world.cluster
        await cluster.start()
        await world.create("orders", partitions=3)
        before = [state.leader for state in await world.states("orders")]
        for broker in cluster.brokers.values():
            broker.power_cut()
        for broker in cluster.brokers.values():
            await broker.start()
        await cluster.all_in()
        await world.until("orders", lambda state: state.leader > 0)
        assert [state.leader for state in await world.states("orders")] == before

    run(story)


def test_the_topic_of_groups_waits_for_enough_brokers() -> None:
    async def story(world: World) -> None:
        cluster = world.cluster
        await cluster.ensemble.start()
        await cluster[1].start()
        await cluster[2].start()
        topic = cluster.running[1].groups.topic
        with pytest.raises(KafkaError, match="cannot be reached because only 2"):
            await cluster[1].node.run(topic.create())
        assert not (await cluster.stored()).topics
        await cluster[3].start()
        await cluster[1].node.run(topic.create())
        states = await world.states(topic.name)
        assert all(len(state.isr) == 3 for state in states)

    run(story)

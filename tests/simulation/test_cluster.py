"""Three brokers on one store, as other tests use them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from moldau.coordination.cluster import prepare
from moldau.testing.simulation import SimulatedCluster, Simulation


def run(story: Callable[[SimulatedCluster], Coroutine[Any, Any, None]], seed: int = 1) -> None:
    with Simulation(seed) as simulation:
        simulation.loop.time_limit = 600
        simulation.run(story(SimulatedCluster(simulation)))


def test_brokers_of_one_store_start_and_one_is_the_controller() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.start()
        assert set((await cluster.stored()).brokers) == {1, 2, 3}
        assert await cluster.controller() in cluster.brokers.values()
        await cluster.stop()
        assert not (await cluster.stored()).brokers

    run(story)


def test_whoever_looks_at_the_store_ends_nobodys_session() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.ensemble.start()
        *_, session = (cluster.ensemble.session() for _ in range(5))
        await cluster.ensemble.node.run(prepare(cluster.ensemble.store.session()))
        await session.create("/controller", b'{"version":1,"brokerid":7}', ephemeral=True)
        for _ in range(20):
            assert (await cluster.stored()).controller_id == 7

    run(story)

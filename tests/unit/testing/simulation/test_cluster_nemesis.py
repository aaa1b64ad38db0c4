"""Who makes trouble for a cluster: within the promise, and all of it comes to an end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from moldau.testing.simulation.checker.history import History
from moldau.testing.simulation.cluster import NotRightError, SimulatedCluster
from moldau.testing.simulation.cluster_nemesis import ClusterNemesis
from moldau.testing.simulation.simulation import Simulation


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(1, keep_events=True) as simulation:
        simulation.loop.time_limit = 600
        yield simulation


@pytest.fixture
def cluster(simulation: Simulation) -> SimulatedCluster:
    return SimulatedCluster(simulation)


@pytest.fixture
def history(simulation: Simulation) -> History:
    return History(simulation.loop.time, brokers=3)


@pytest.fixture
def nemesis(simulation: Simulation, history: History, cluster: SimulatedCluster) -> ClusterNemesis:
    return ClusterNemesis(simulation, history, cluster, [])


def test_no_power_is_cut_while_somebody_lags(
    simulation: Simulation,
    cluster: SimulatedCluster,
    history: History,
    nemesis: ClusterNemesis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def lags(_within: float) -> None:
        raise NotRightError("somebody lags")

    async def story() -> None:
        await cluster.start()
        monkeypatch.setattr(cluster, "in_sync", lags)
        await nemesis.power_cut()
        assert len(cluster.running) == 3

    simulation.run(story())
    assert not history.crashes
    assert not history.caught_up


def test_a_power_cut_comes_at_the_moment_of_a_catch_up(
    simulation: Simulation, cluster: SimulatedCluster, history: History, nemesis: ClusterNemesis
) -> None:
    async def story() -> None:
        await cluster.start()
        for _ in range(3):
            await nemesis.power_cut()

    simulation.run(story())
    assert [crash.at for crash in history.crashes] == history.caught_up
    assert all(crash.power for crash in history.crashes)
    assert not history.cuts_since(0.0)


def test_where_everything_is_synced_the_power_goes_at_any_time(
    simulation: Simulation, cluster: SimulatedCluster, history: History, nemesis: ClusterNemesis
) -> None:
    history.synced_always = True

    async def story() -> None:
        await cluster.start()
        await asyncio.gather(nemesis.power_cut(), nemesis.power_cut())

    simulation.run(story())
    assert len(history.crashes) == 2
    assert not history.caught_up


TROUBLES_OF_CLIENTS = ("cut", "reset")
"""And those with "client" in their names: for lives with clients."""


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in ClusterNemesis.CLUSTER_TROUBLES
        if "client" not in name and name not in TROUBLES_OF_CLIENTS
    ],
)
def test_after_every_trouble_all_brokers_come_back(
    simulation: Simulation, cluster: SimulatedCluster, nemesis: ClusterNemesis, name: str
) -> None:
    async def story() -> None:
        await cluster.start()
        await nemesis.trouble(10, [name])
        await nemesis.heal()
        await cluster.all_in()
        await nemesis.end()

    simulation.run(story())
    assert len(cluster.running) == 3
    assert cluster.ensemble.is_running

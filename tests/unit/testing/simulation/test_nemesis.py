"""Who makes trouble: troubles come upon each other, and all of them come to an end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from moldau.testing.simulation.broker import SimulatedBroker
from moldau.testing.simulation.checker.history import History
from moldau.testing.simulation.nemesis import Nemesis
from moldau.testing.simulation.simulation import Simulation

USUAL_DELAY, USUAL_WORK = 0.02, 0.1


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(1, keep_events=True) as simulation:
        simulation.network.quality.longest = USUAL_DELAY
        yield simulation


@pytest.fixture
def broker(simulation: Simulation) -> SimulatedBroker:
    broker = SimulatedBroker(simulation)
    broker.node.slowest_work = USUAL_WORK
    return broker


@pytest.fixture
def history(simulation: Simulation) -> History:
    return History(simulation.loop.time)


@pytest.fixture
def nemesis(simulation: Simulation, history: History, broker: SimulatedBroker) -> Nemesis:
    return Nemesis(simulation, history, broker, [])


def test_a_broker_is_killed_while_its_disk_is_slow(
    simulation: Simulation, broker: SimulatedBroker, nemesis: Nemesis
) -> None:
    work_at_kills = []
    broker.node.on_crash = lambda _: work_at_kills.append(broker.node.slowest_work)

    async def story() -> None:
        await broker.start()
        await nemesis.trouble(60, ["kill", "slow disk"])

    simulation.run(story())
    assert USUAL_WORK in work_at_kills
    assert max(work_at_kills) > USUAL_WORK


def test_what_is_healed_is_as_it_was(
    simulation: Simulation, broker: SimulatedBroker, nemesis: Nemesis
) -> None:
    async def story() -> None:
        await broker.start()
        await nemesis.trouble(20, ["slow network", "slow disk"])
        await nemesis.heal()
        assert simulation.network.quality.longest == USUAL_DELAY
        assert broker.node.slowest_work == USUAL_WORK

    simulation.run(story())


def test_brokers_are_kept_running_until_the_end(
    simulation: Simulation, broker: SimulatedBroker, nemesis: Nemesis
) -> None:
    async def story() -> None:
        await broker.start()
        await nemesis.heal()
        broker.kill()
        await asyncio.sleep(60)
        assert broker.is_running
        await nemesis.end()
        broker.kill()
        await asyncio.sleep(60)
        assert not broker.is_running

    simulation.run(story())


def test_a_stop_that_fails_is_no_stop_that_anybody_expected(
    simulation: Simulation,
    broker: SimulatedBroker,
    history: History,
    nemesis: Nemesis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail() -> None:
        raise AssertionError("half done")

    async def story() -> None:
        await broker.start()
        assert broker.server is not None
        monkeypatch.setattr(broker.server, "stop", fail)
        await nemesis.restart()
        assert broker.is_running

    simulation.run(story())
    ((_, node, text),) = history.errors
    assert (node, text) == ("broker-1", "cannot stop: AssertionError('half done')")

"""A world as a whole: chance from one seed, clocks, and an end that leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterator

import pytest
from tests.unit.testing.simulation.talker import Pair

from moldau.testing.simulation.clock import START_MS
from moldau.testing.simulation.errors import SimulationStuckError
from moldau.testing.simulation.simulation import Simulation


@pytest.fixture
def collecting() -> Iterator[None]:
    """Whatever a test does, others are collected."""
    yield
    gc.enable()


def talk(seed: int, *, keep_events: bool = False) -> str:
    """The digest of a short life."""
    with Simulation(seed, keep_events=keep_events) as simulation:

        async def story() -> None:
            pair = Pair(simulation)
            await pair.connect()
            for number in range(10):
                pair.send(b"%d" % number)
                await asyncio.sleep(simulation.network.random.random())
                simulation.node("server").disk.write("/a", b"x")

        simulation.run(story())
        return simulation.recorder.digest


def test_a_seed_is_a_life() -> None:
    assert talk(1) == talk(1)
    assert talk(1) != talk(2)


def test_watching_changes_nothing() -> None:
    assert talk(1, keep_events=True) == talk(1)


def test_what_was_said_counts_and_not_only_how_much() -> None:
    def say(word: bytes) -> str:
        with Simulation(1) as simulation:

            async def story() -> None:
                pair = Pair(simulation)
                await pair.connect()
                pair.send(word)
                await asyncio.sleep(1)

            simulation.run(story())
            return simulation.recorder.digest

    assert say(b"this") == say(b"this") != say(b"that")


def test_chance_of_one_kind_does_not_depend_on_another() -> None:
    first, second = Simulation(5), Simulation(5)
    first.new_random("one").random()
    assert first.new_random("two").random() == second.new_random("two").random()
    assert first.new_random("two").random() != first.new_random("three").random()


def test_clocks_show_virtual_time_and_may_be_wrong() -> None:
    with Simulation(1) as simulation:
        node = simulation.node("node")
        clock = node.boot().clock
        fired: list[float] = []

        async def story() -> None:
            assert clock.now_ms() == START_MS
            clock.call_later(2.5, lambda: fired.append(clock.monotonic()))
            clock.call_later(1.0, lambda: fired.append(-1)).cancel()
            await asyncio.sleep(10)
            assert clock.now_ms() == START_MS + 10_000
            node.clock.ahead_ms = -3_000
            assert clock.now_ms() == START_MS + 7_000
            assert clock.monotonic() == 10.0
            assert fired == [2.5]

        simulation.run(story())


def test_a_world_may_go_on() -> None:
    with Simulation(1) as simulation:
        simulation.run(asyncio.sleep(1))
        assert simulation.run(asyncio.sleep(2, "result")) == "result"
        assert simulation.time == 3.0


def test_errors_of_a_story_come_out() -> None:
    async def fail() -> None:
        raise ValueError("wrong")

    with Simulation(1) as simulation:
        with pytest.raises(ValueError, match="wrong"):
            simulation.run(fail())
        with pytest.raises(SimulationStuckError):
            simulation.run(asyncio.Event().wait())


@pytest.mark.usefixtures("collecting")
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_collection_is_left_as_it_was(enabled: bool, fails: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    try:
        with Simulation(1):
            assert not gc.isenabled()
            with Simulation(2):
                pass
            assert not gc.isenabled()
            if fails:
                raise ValueError("wrong")
    except ValueError:
        pass
    assert gc.isenabled() == enabled


def test_the_end_of_a_world_is_silent(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("moldau")
    effects: list[str] = []

    async def program(simulation: Simulation) -> None:
        node = simulation.node("server")
        try:
            await asyncio.sleep(1000)
        finally:
            logger.error("what is going on?")
            try:
                node.disk.write("/late", b"")
                effects.append("written")
            finally:
                await asyncio.gather(asyncio.sleep(1), asyncio.sleep(2))
                effects.append("waited")

    async def story(simulation: Simulation) -> None:
        simulation.node("server").boot()
        simulation.node("server").spawn(program(simulation))
        await asyncio.sleep(1)

    with Simulation(1) as simulation:
        simulation.run(story(simulation))
        digest = simulation.recorder.digest
    assert simulation.recorder.digest == digest
    assert effects == []
    assert caplog.records == []
    assert capsys.readouterr() == ("", "")
    logger.error("heard again")
    assert [record.getMessage() for record in caplog.records] == ["heard again"]

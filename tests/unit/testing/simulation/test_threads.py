"""Worker threads: results, order, and what is called off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextvars import ContextVar
from functools import partial

import pytest

from moldau.machine import Threads
from moldau.testing.simulation.node import Node
from moldau.testing.simulation.process import PROCESS
from moldau.testing.simulation.simulation import Simulation


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(1) as simulation:
        yield simulation


@pytest.fixture
def node(simulation: Simulation) -> Node:
    node = simulation.node("node")
    node.slowest_work = 1.0
    return node


@pytest.fixture
def threads(node: Node) -> Threads:
    return node.boot().threads


def test_work_takes_time_and_has_a_result(
    simulation: Simulation, node: Node, threads: Threads
) -> None:
    def work(first: int, *, second: int) -> tuple[int, object]:
        return first + second, PROCESS.get()

    async def story() -> None:
        assert await node.run(threads.run(work, 1, second=2)) == (3, node.process)  # type: ignore[arg-type]
        assert 0 < simulation.time < 1

    simulation.run(story())


def test_an_error_comes_back(simulation: Simulation, threads: Threads) -> None:
    def fail() -> None:
        raise OSError("disk on fire")

    async def story() -> None:
        with pytest.raises(OSError, match="disk on fire"):
            await threads.run(fail)

    simulation.run(story())


def test_work_sees_the_context_of_whoever_gave_it(simulation: Simulation, threads: Threads) -> None:
    variable: ContextVar[str] = ContextVar("variable")

    async def story() -> None:
        variable.set("mine")
        assert await threads.run(variable.get) == "mine"

    simulation.run(story())


def test_pieces_of_work_end_in_any_order(simulation: Simulation, threads: Threads) -> None:
    ended: list[int] = []

    async def story() -> None:
        await asyncio.gather(*(threads.run(partial(ended.append, number)) for number in range(20)))

    simulation.run(story())
    assert sorted(ended) == list(range(20)) != ended


def test_no_more_than_a_few_run_at_once(simulation: Simulation, threads: Threads) -> None:
    async def story() -> None:
        await asyncio.gather(*(threads.run(int) for _ in range(400)))
        # 400 times half a second on average, four at a time.
        assert 40 < simulation.time < 60

    simulation.run(story())


def test_a_single_daemon_keeps_the_order(simulation: Simulation, threads: Threads) -> None:
    ended: list[int] = []
    daemons = threads.daemons(1, "one")

    async def story() -> None:
        await asyncio.gather(*(daemons.run(partial(ended.append, number)) for number in range(20)))
        daemons.close()
        with pytest.raises(RuntimeError, match="closed"):
            await daemons.run(int)

    simulation.run(story())
    assert ended == list(range(20))


def test_work_that_waits_is_called_off_and_work_that_has_begun_is_not(
    simulation: Simulation, threads: Threads
) -> None:
    ended: list[int] = []

    async def story() -> None:
        waits = [
            asyncio.ensure_future(threads.run(partial(ended.append, number))) for number in range(8)
        ]
        await asyncio.sleep(0)
        for wait in waits:
            wait.cancel()
        await asyncio.wait(waits)
        await asyncio.sleep(10)

    simulation.run(story())
    assert sorted(ended) == [0, 1, 2, 3]


def test_what_daemons_were_given_is_not_called_off(
    simulation: Simulation, threads: Threads
) -> None:
    ended: list[int] = []
    daemons = threads.daemons(1, "one")

    async def story() -> None:
        waits = [
            asyncio.ensure_future(daemons.run(partial(ended.append, number))) for number in range(3)
        ]
        await asyncio.sleep(0)
        for wait in waits:
            wait.cancel()
        await asyncio.wait(waits)
        await asyncio.sleep(10)

    simulation.run(story())
    assert ended == [0, 1, 2]


def test_closing_waits_for_what_was_given(simulation: Simulation, threads: Threads) -> None:
    ended: list[int] = []

    async def story() -> None:
        waits = [
            asyncio.ensure_future(threads.run(partial(ended.append, number))) for number in range(6)
        ]
        await asyncio.sleep(0)
        waits[5].cancel()
        await asyncio.sleep(0)
        threads.close()
        assert ended == [0, 1, 2, 3, 4]
        await asyncio.wait(waits)
        assert simulation.time == 0
        with pytest.raises(RuntimeError, match="closed"):
            await threads.run(int)
        await asyncio.sleep(10)
        assert ended == [0, 1, 2, 3, 4]

    simulation.run(story())


def test_work_of_a_killed_process_does_not_happen(
    simulation: Simulation, node: Node, threads: Threads
) -> None:
    ended: list[int] = []

    async def story() -> None:
        node.spawn(threads.run(ended.append, 1))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        node.kill()
        await asyncio.sleep(10)

    simulation.run(story())
    assert ended == []


def test_work_takes_longer_on_a_slow_machine(
    simulation: Simulation, node: Node, threads: Threads
) -> None:
    async def story() -> None:
        node.slowest_work = 0
        await threads.run(int)
        assert simulation.time < 0.001
        node.slowest_work = 100
        for _ in range(10):
            await threads.run(int)
        assert simulation.time > 100

    simulation.run(story())

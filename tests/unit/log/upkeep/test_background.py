"""Tasks and timers that end together."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.logs import records_of

from moldau.log.upkeep.background import Background
from moldau.testing.clock import ManualClock


async def test_tasks_are_waited_for_in_the_order_of_their_making() -> None:
    background = Background(ManualClock())
    gates = [asyncio.Event() for _ in range(4)]
    ended: list[int] = []

    async def work(number: int) -> None:
        await gates[number].wait()
        ended.append(number)

    for number in range(4):
        background.spawn(work(number))
    closing = asyncio.create_task(background.close())
    for number in (3, 1, 2):
        gates[number].set()
        await asyncio.sleep(0)
    assert not closing.done()
    gates[0].set()
    await closing
    assert ended == [3, 1, 2, 0]


async def test_what_comes_round_again_ends_with_the_rest() -> None:
    clock = ManualClock()
    background = Background(clock)
    runs: list[float] = []

    async def work() -> None:
        runs.append(clock.monotonic())

    background.every(2.0, work, first=1.0)
    for _ in range(5):
        clock.advance(1.0)
        for _ in range(3):
            await asyncio.sleep(0)
    assert runs == [1.0, 3.0, 5.0]
    await background.close()
    background.later(1.0, work)
    assert clock.pending == 0


async def test_a_failure_is_logged_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    background = Background(ManualClock())

    async def work() -> None:
        raise RuntimeError("it burns")

    background.spawn(work())
    await background.close()
    (record,) = records_of(caplog, "moldau.log")
    assert record.message == "background work failed"

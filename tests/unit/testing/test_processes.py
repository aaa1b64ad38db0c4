"""Child processes on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from moldau.machine import Pause
from moldau.testing.clock import ManualClock
from moldau.testing.processes import LoopProcess, LoopProcesses


def spell(message: bytes) -> Iterator[bytes | Pause]:
    """Letter by letter, with a second before each vowel."""
    for number in range(len(message)):
        letter = message[number : number + 1]
        if letter in b"aeiou":
            yield Pause(1.0)
        yield letter


async def start(clock: ManualClock) -> LoopProcess:
    return await LoopProcesses(clock, {"speller": spell}).start("speller")


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_messages_are_worked_on_one_after_the_other() -> None:
    child = await start(ManualClock())
    await child.send(b"xy")
    await child.send(b"z")
    assert [await child.receive() for _ in range(3)] == [b"x", b"y", b"z"]
    child.end_input()
    assert await child.wait() == 0
    with pytest.raises(EOFError):
        await child.receive()
    with pytest.raises(BrokenPipeError):
        await child.send(b"q")


async def test_a_pause_lasts_until_the_clock_says_so() -> None:
    clock = ManualClock()
    child = await start(clock)
    await child.send(b"a")
    receiving = asyncio.create_task(child.receive())
    await turns()
    await child.send(b"x")  # wakes nobody who sleeps
    await turns()
    assert not receiving.done()
    clock.advance(1.0)
    assert await receiving == b"a"


@pytest.mark.parametrize("message", [b"", b"a"], ids=["idle", "pausing"])
async def test_whoever_waits_for_a_killed_child_sees_its_end(message: bytes) -> None:
    child = await start(ManualClock())
    if message:
        await child.send(message)
    receiving = asyncio.create_task(child.receive())
    await turns()
    child.kill()
    child.kill()
    with pytest.raises(EOFError):
        await receiving
    assert await child.wait() == -9


async def test_a_child_that_waits_hears_a_message_that_comes_later() -> None:
    child = await start(ManualClock())
    receiving = asyncio.create_task(child.receive())
    await turns()
    await child.send(b"x")
    assert await receiving == b"x"


async def test_a_program_that_fails_is_a_child_that_ends() -> None:
    def fail(message: bytes) -> Iterator[bytes | Pause]:
        yield message
        raise RuntimeError("it burns")

    child = await LoopProcesses(ManualClock(), {"failing": fail}).start("failing")
    await child.send(b"x")
    assert await child.receive() == b"x"
    with pytest.raises(EOFError):
        await child.receive()
    assert await child.wait() == 1

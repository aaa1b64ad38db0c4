from __future__ import annotations

import asyncio

import pytest

from moldau.coordination.event_queue import EventQueue, QueueClosedError


async def test_events_run_one_at_a_time_and_in_order() -> None:
    queue = EventQueue("test")
    trace: list[str] = []

    def event(name: str) -> None:
        async def run() -> None:
            trace.append(f"{name} begins")
            await asyncio.sleep(0)
            trace.append(f"{name} ends")

        queue.post(run)

    event("a")
    event("b")
    await queue.drain()
    assert trace == ["a begins", "a ends", "b begins", "b ends"]


async def test_a_submitted_event_answers_or_fails_to_its_caller_only() -> None:
    queue = EventQueue("test")

    async def good() -> int:
        return 7

    async def bad() -> int:
        raise ValueError("bad")

    failing = asyncio.ensure_future(queue.submit(bad))
    assert await queue.submit(good) == 7
    with pytest.raises(ValueError, match="bad"):
        await failing


async def test_a_posted_event_that_fails_is_logged_and_the_next_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = EventQueue("test")

    async def bad() -> None:
        raise ValueError("bad")

    async def good() -> str:
        return "ran"

    queue.post(bad)
    assert await queue.submit(good) == "ran"
    assert "an event failed" in caplog.text


async def test_draining_waits_for_what_events_post() -> None:
    queue = EventQueue("test")
    seen: list[int] = []

    async def chain(left: int = 3) -> None:
        seen.append(left)
        if left:
            queue.post(lambda: chain(left - 1))

    queue.post(chain)
    await queue.drain()
    assert seen == [3, 2, 1, 0]


async def test_closing_finishes_what_runs_and_refuses_the_rest() -> None:
    queue = EventQueue("test")
    running, finish = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        running.set()
        await finish.wait()
        return "done"

    async def never() -> str:
        raise AssertionError("ran after close")

    first = asyncio.ensure_future(queue.submit(slow))
    second = asyncio.ensure_future(queue.submit(never))
    await running.wait()
    closing = asyncio.ensure_future(queue.close())
    await asyncio.sleep(0)
    finish.set()
    await closing
    assert await first == "done"
    with pytest.raises(QueueClosedError):
        await second
    with pytest.raises(QueueClosedError):
        await queue.submit(never)
    queue.post(never)
    await queue.drain()


async def test_a_caller_that_gives_up_does_not_stop_the_queue() -> None:
    queue = EventQueue("test")
    ran: list[str] = []

    async def event() -> None:
        ran.append("ran")

    waiting = asyncio.ensure_future(queue.submit(event))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await queue.drain()
    assert ran == ["ran"]

"""The loop: order, virtual time, and which process a callback belongs to."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextvars import Context, ContextVar, copy_context
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.logs import records_of

from moldau.testing.simulation.errors import (
    ProcessEnded,
    SimulationStuckError,
    SimulationTooLongError,
)
from moldau.testing.simulation.loop import MOST_CALLBACKS_AT_ONCE, RESOLUTION, SimulatedLoop
from moldau.testing.simulation.process import PROCESS, Process


def new_loop() -> SimulatedLoop:
    return SimulatedLoop()  # type: ignore[abstract]  # as the simulation does


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = new_loop()
    yield loop
    loop.close()


@pytest.fixture
def process(loop: SimulatedLoop) -> Process:
    return Process("program#1", loop)


@pytest.fixture
def collect() -> Callable[[], object]:
    """Collects what the test has left, and nothing that others have."""
    gc.freeze()
    return gc.collect


def spawn(
    loop: SimulatedLoop, process: Process, work: Coroutine[Any, Any, Any]
) -> asyncio.Task[Any]:
    return loop.create_task(work, context=process.context.copy())


# Order and time ----------------------------------------------------------------------------------


def test_callbacks_run_in_the_order_of_their_making(loop: SimulatedLoop) -> None:
    order: list[str] = []
    loop.call_soon(order.append, "first")
    loop.call_soon(loop.call_soon, order.append, "third")
    loop.call_soon(order.append, "second")
    loop.run_forever()
    assert order == ["first", "second", "third"]
    assert loop.time() == 0.0


def test_time_may_pass_while_programs_look_at_the_clock(loop: SimulatedLoop) -> None:
    fired: list[float] = []

    async def program() -> None:
        for after in (1.0, 3.0):
            loop.call_later(after, lambda: fired.append(loop.time()))
        loop.look_takes = 2.0
        assert (loop.time(), loop.time()) == (2.0, 4.0)
        loop.look_takes = 0.0
        await asyncio.sleep(1.0)

    loop.run_until_complete(program())
    assert fired == [4.0, 4.0], "late, and never back in time"
    assert loop.time() == 5.0


def test_time_jumps_from_timer_to_timer(loop: SimulatedLoop) -> None:
    seen: list[tuple[str, float]] = []

    def note(name: str) -> None:
        seen.append((name, loop.time()))

    loop.call_later(3600.0, note, "late")
    loop.call_at(0.5, note, "early")
    loop.call_soon(note, "now")
    loop.run_forever()
    assert seen == [("now", 0.0), ("early", 0.5), ("late", 3600.0)]


def test_timers_of_one_time_fire_in_the_order_of_their_making(loop: SimulatedLoop) -> None:
    order: list[int] = []
    for number in range(50):
        loop.call_at(1.0, order.append, number)
    loop.run_forever()
    assert order == list(range(50))


@pytest.mark.parametrize("delay", [0.0, -5.0, RESOLUTION / 10])
def test_a_timer_takes_at_least_the_resolution(loop: SimulatedLoop, delay: float) -> None:
    fired: list[float] = []
    handle = loop.call_later(delay, lambda: fired.append(loop.time()))
    loop.run_forever()
    assert fired == [RESOLUTION] == [handle.when()]


def test_what_is_ready_runs_before_any_time_passes(loop: SimulatedLoop) -> None:
    order: list[str] = []
    loop.call_later(0.0, order.append, "timer")
    for _ in range(3):
        loop.call_soon(loop.call_soon, order.append, "ready")
    loop.run_forever()
    assert order == ["ready", "ready", "ready", "timer"]


def test_what_was_cancelled_does_not_run(loop: SimulatedLoop) -> None:
    order: list[str] = []
    soon, later = loop.call_soon(order.append, "soon"), loop.call_later(1, order.append, "later")
    loop.call_soon(later.cancel)
    soon.cancel()
    loop.run_forever()
    assert order == []
    assert soon.cancelled()
    assert later.cancelled()
    assert loop.time() == 0.0


def test_a_timer_may_cancel_another_of_the_same_time(loop: SimulatedLoop) -> None:
    order: list[str] = []
    loop.call_at(1.0, lambda: second.cancel())
    second = loop.call_at(1.0, order.append, "second")
    loop.run_forever()
    assert order == []


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30))
def test_callbacks_run_by_time_and_then_by_making(plan: list[tuple[int, bool]]) -> None:
    loop = new_loop()
    order: list[int] = []
    for number, (at, cancelled) in enumerate(plan):
        handle = loop.call_at(1.0 + at, order.append, number)
        if cancelled:
            handle.cancel()
    loop.run_forever()
    kept = [(at, number) for number, (at, cancelled) in enumerate(plan) if not cancelled]
    assert order == [number for _, number in sorted(kept)]


def test_a_callback_runs_in_the_context_it_was_given(loop: SimulatedLoop) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="unset")
    other = copy_context()
    other.run(variable.set, "other")
    seen: list[str] = []

    def note() -> None:
        seen.append(variable.get())

    variable.set("mine")
    loop.call_soon(note)
    variable.set("changed later")
    loop.call_later(1, note, context=other)
    loop.call_later(2, note, context=Context())
    loop.run_forever()
    assert seen == ["mine", "other", "unset"]


# Limits ------------------------------------------------------------------------------------------


def test_callbacks_without_end_are_noticed(loop: SimulatedLoop) -> None:
    runs = 0

    def again() -> None:
        nonlocal runs
        runs += 1
        loop.call_soon(again)

    loop.call_soon(again)
    with pytest.raises(SimulationStuckError, match=r"no end of callbacks at 0\.000000 s"):
        loop.run_forever()
    assert runs == MOST_CALLBACKS_AT_ONCE - 1


def test_many_callbacks_over_time_are_no_livelock(loop: SimulatedLoop) -> None:
    runs = 0

    def again() -> None:
        nonlocal runs
        runs += 1
        if runs % 1000 == 0:
            loop.call_later(0.001, again)
        elif runs < 2 * MOST_CALLBACKS_AT_ONCE:
            loop.call_soon(again)

    loop.time_limit = 0.3995
    loop.call_soon(again)
    with pytest.raises(SimulationTooLongError):
        loop.run_forever()
    assert runs == 2 * MOST_CALLBACKS_AT_ONCE


def test_a_run_is_given_up_when_its_time_is_over(loop: SimulatedLoop) -> None:
    async def wait_for_ever() -> None:
        while True:  # noqa: ASYNC110 - what it waits for never happens
            await asyncio.sleep(7)

    loop.time_limit = 20.0
    with pytest.raises(SimulationTooLongError, match="not over after 20 s"):
        loop.run_until_complete(wait_for_ever())
    assert loop.time() == 14.0


def test_a_cancelled_timer_beyond_the_limit_does_not_count(loop: SimulatedLoop) -> None:
    loop.time_limit = 20.0
    loop.call_later(1000, print).cancel()
    loop.run_forever()


def test_a_scenario_that_waits_for_nothing_is_stuck(loop: SimulatedLoop) -> None:
    async def wait() -> None:
        await loop.create_future()

    with pytest.raises(SimulationStuckError, match="nothing is left to happen"):
        loop.run_until_complete(wait())


async def run_inside(loop: SimulatedLoop) -> None:
    with pytest.raises(RuntimeError, match="while an event loop is running"):
        loop.run_forever()


def test_it_does_not_run_inside_another_loop(loop: SimulatedLoop) -> None:
    other = asyncio.new_event_loop()
    other.run_until_complete(run_inside(loop))
    other.close()


def test_it_does_not_run_inside_itself(loop: SimulatedLoop) -> None:
    loop.run_until_complete(run_inside(loop))


# Processes ---------------------------------------------------------------------------------------


def test_what_a_process_begins_belongs_to_it(loop: SimulatedLoop, process: Process) -> None:
    seen: list[Process | None] = []

    def note() -> None:
        seen.append(PROCESS.get())

    async def work() -> None:
        note()
        loop.call_soon(note)
        loop.call_later(1, note)
        await asyncio.gather(asyncio.create_task(child()))

    async def child() -> None:
        await asyncio.sleep(2)
        note()

    spawn(loop, process, work())
    loop.call_soon(note)
    loop.run_forever()
    assert seen == [process, None, process, process, process]


def test_callbacks_of_an_ended_process_are_dropped(loop: SimulatedLoop, process: Process) -> None:
    seen: list[str] = []

    async def work() -> None:
        loop.call_later(2.0, seen.append, "timer")
        try:
            while True:
                seen.append("tick")
                await asyncio.sleep(0.4)
        finally:
            seen.append("finally")

    spawn(loop, process, work())
    loop.call_at(1.0, process.end)
    loop.call_at(1.0, seen.append, "world")
    loop.run_forever()
    assert seen == ["tick", "tick", "tick", "world"]


def test_a_task_that_ends_its_own_process_ends_there(loop: SimulatedLoop, process: Process) -> None:
    seen: list[str] = []

    async def work() -> None:
        loop.call_soon(seen.append, "never")
        process.end()
        process.check_alive()

    task = spawn(loop, process, work())
    task.add_done_callback(lambda _: seen.append("never"), context=process.context)
    loop.run_forever()
    assert isinstance(task.exception(), ProcessEnded)
    assert seen == []


def test_a_paused_process_finds_what_came_when_it_goes_on(
    loop: SimulatedLoop, process: Process
) -> None:
    seen: list[tuple[str, float]] = []

    def note(name: str) -> None:
        seen.append((name, loop.time()))

    for name, at in (("before", 0.5), ("first", 1.5), ("second", 1.7), ("after", 9.0)):
        loop.call_at(at, note, name, context=process.context)
    loop.call_at(1.0, process.pause, 5.0)
    loop.call_at(2.0, note, "other")
    loop.call_at(5.0, process.resume)
    loop.run_forever()
    assert seen == [
        ("before", 0.5),
        ("other", 2.0),
        ("first", 5.0),
        ("second", 5.0),
        ("after", 9.0),
    ]


def test_what_was_held_back_runs_before_what_came_later(
    loop: SimulatedLoop, process: Process
) -> None:
    order: list[str] = []
    loop.call_at(1.0, order.append, "held", context=process.context)
    process.pause(2.0)
    loop.call_at(2.0, process.resume)
    loop.call_at(2.0, order.append, "due when it goes on", context=process.context)
    loop.run_forever()
    assert order == ["held", "due when it goes on"]


def test_what_a_paused_process_has_cancelled_before_stays_cancelled(
    loop: SimulatedLoop, process: Process
) -> None:
    order: list[str] = []
    handle = loop.call_at(1.0, order.append, "held", context=process.context)
    process.pause(3.0)
    loop.call_at(2.0, handle.cancel)
    loop.call_at(3.0, process.resume)
    loop.run_forever()
    assert order == []


def test_a_process_that_is_killed_while_paused_never_goes_on(
    loop: SimulatedLoop, process: Process
) -> None:
    order: list[str] = []
    loop.call_at(1.0, order.append, "held", context=process.context)
    process.pause(9.0)
    loop.call_at(2.0, process.end)
    loop.call_at(3.0, process.resume)
    loop.run_forever()
    assert order == []
    assert process.has_ended


def test_a_process_knows_since_when_news_may_have_waited(
    loop: SimulatedLoop, process: Process
) -> None:
    heard: list[float] = []

    def note() -> None:
        heard.append(process.heard_at)

    loop.call_at(1.0, note, context=process.context)
    loop.call_at(2.0, process.pause, 5.0)
    loop.call_at(3.0, note, context=process.context)
    loop.call_at(5.0, process.resume)
    loop.call_at(6.0, note, context=process.context)
    loop.run_forever()
    assert heard == [1.0, 2.0, 6.0]


# Tasks -------------------------------------------------------------------------------------------


def test_no_finally_block_of_a_dead_process_runs_before_the_end_of_the_world(
    process: Process, loop: SimulatedLoop, collect: Callable[[], object]
) -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            seen.append("finally")
            process.check_alive()
            seen.append("an effect")

    spawn(loop, process, work())
    loop.call_at(1.0, process.end)
    loop.run_forever()
    collect()
    assert seen == []
    process.bury()
    assert seen == ["finally"]


async def stubborn() -> None:
    try:
        await asyncio.sleep(10)
    finally:
        for _ in range(5):
            await asyncio.sleep(1)


async def with_children() -> None:
    try:
        await asyncio.sleep(10)
    finally:
        await asyncio.gather(stubborn(), stubborn())


async def swallowing() -> None:
    try:
        await stubborn()
    except Exception:
        await asyncio.sleep(1)


async def numbers() -> AsyncIterator[int]:
    try:
        yield 1
        await asyncio.sleep(10)
    finally:
        await asyncio.sleep(1)


async def over_a_generator() -> None:
    async for _ in numbers():
        pass


@pytest.mark.parametrize("work", [stubborn, with_children, swallowing, over_a_generator])
@pytest.mark.parametrize("of_process", [True, False])
def test_what_is_left_at_the_end_goes_without_a_word(
    work: Callable[[], Coroutine[Any, Any, None]],
    of_process: bool,
    collect: Callable[[], object],
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    loop = new_loop()
    process = Process("program#1", loop)
    if of_process:
        spawn(loop, process, work())
    else:
        loop.create_task(work())
    loop.call_at(1.0, process.end)
    loop.call_at(1.0, loop.stop)
    loop.run_forever()
    loop.close()
    process.bury()
    del loop, process
    collect()
    assert caplog.records == []
    assert capsys.readouterr() == ("", "")


def test_a_task_that_never_began_goes_without_a_word(
    loop: SimulatedLoop, process: Process, collect: Callable[[], object]
) -> None:
    spawn(loop, process, stubborn())
    process.end()
    loop.run_forever()
    process.bury()
    collect()


def test_an_async_generator_that_is_left_is_closed_by_its_process(loop: SimulatedLoop) -> None:
    closed: list[float] = []

    async def tick() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(1)
            closed.append(loop.time())

    async def work() -> None:
        async for _ in tick():
            break

    loop.create_task(work())
    loop.run_forever()
    assert closed == [1.0]


def test_an_exception_that_nobody_catches_is_told_as_asyncio_does(
    loop: SimulatedLoop, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Process | None] = []
    logger = logging.getLogger("asyncio")

    def fail() -> None:
        raise ValueError("wrong")

    class Notice(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            seen.append(PROCESS.get())
            return True

    notice = Notice()
    logger.addFilter(notice)
    try:
        loop.call_soon(fail, context=process.context)
        loop.run_forever()
    finally:
        logger.removeFilter(notice)
    (record,) = records_of(caplog, "asyncio")
    assert "Exception in callback" in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)
    assert seen == [process]


def test_keyboard_interrupts_get_out(loop: SimulatedLoop) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    loop.call_soon(interrupt)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    assert not loop.is_running()


def test_a_closed_loop_is_silent(loop: SimulatedLoop) -> None:
    order: list[str] = []
    loop.close()
    loop.call_soon(order.append, "x")
    loop.run_forever()
    assert loop.is_closed()
    assert order == []


# What asyncio builds on it -----------------------------------------------------------------------


def test_timeouts(loop: SimulatedLoop) -> None:
    async def work() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.0):
                await asyncio.sleep(5)
        assert loop.time() == 2.0
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(5), 1.0)
        assert loop.time() == 3.0
        assert await asyncio.wait_for(asyncio.sleep(1, "done"), 5.0) == "done"
        assert loop.time() == 4.0

    loop.run_until_complete(work())


def test_gather_and_task_groups(loop: SimulatedLoop) -> None:
    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError("wrong")

    async def fail_together() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(100))
            group.create_task(fail())

    async def work() -> None:
        results = await asyncio.gather(asyncio.sleep(2, "a"), asyncio.sleep(1, "b"))
        assert list(results) == ["a", "b"]
        with pytest.raises(ExceptionGroup) as caught:
            await fail_together()
        assert caught.group_contains(ValueError)
        assert loop.time() == 3.0

    loop.run_until_complete(work())


def test_events_locks_and_queues(loop: SimulatedLoop) -> None:
    async def work() -> None:
        event, lock, queue = asyncio.Event(), asyncio.Lock(), asyncio.Queue[int](maxsize=1)
        order: list[str] = []

        async def hold(name: str) -> None:
            async with lock:
                order.append(name)
                await event.wait()

        async def produce() -> None:
            for number in range(3):
                await queue.put(number)

        async with asyncio.TaskGroup() as group:
            group.create_task(hold("first"))
            group.create_task(hold("second"))
            group.create_task(produce())
            await asyncio.sleep(1)
            assert order == ["first"]
            event.set()
            assert [await queue.get() for _ in range(3)] == [0, 1, 2]
        assert order == ["first", "second"]

    loop.run_until_complete(work())

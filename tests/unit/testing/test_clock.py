"""The clock that tests hold in their hands."""

from __future__ import annotations

from functools import partial

from moldau.testing.clock import ManualClock


def test_time_moves_only_when_it_is_moved() -> None:
    clock = ManualClock(1000)
    assert (clock.now_ms(), clock.monotonic()) == (1000, 0.0)
    clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (2500, 1.5)


def test_calls_run_in_the_order_of_their_times_and_of_their_making() -> None:
    clock = ManualClock()
    order: list[tuple[str, float]] = []

    def note(name: str) -> None:
        order.append((name, clock.monotonic()))

    for name, delay in (("late", 2.0), ("first", 1.0), ("second", 1.0), ("never", 9.0)):
        clock.call_later(delay, partial(note, name))
    clock.advance(3.0)
    assert order == [("first", 1.0), ("second", 1.0), ("late", 2.0)]
    assert clock.pending == 1
    assert clock.monotonic() == 3.0


def test_a_call_made_by_a_call_runs_in_the_same_span_if_it_is_due() -> None:
    clock = ManualClock()
    times: list[float] = []

    def again() -> None:
        times.append(clock.monotonic())
        clock.call_later(1.0, again)

    clock.call_later(1.0, again)
    clock.advance(3.5)
    assert times == [1.0, 2.0, 3.0]


def test_a_cancelled_call_never_runs_also_when_cancelled_by_another_that_is_due() -> None:
    clock = ManualClock()
    ran: list[str] = []
    timer = clock.call_later(1.0, lambda: ran.append("cancelled"))
    clock.call_later(0.5, timer.cancel)
    clock.advance(2.0)
    timer.cancel()
    assert ran == []
    assert clock.pending == 0

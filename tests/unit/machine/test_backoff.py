"""Waiting longer and longer."""

from __future__ import annotations

import asyncio
from random import Random

from moldau.machine.backoff import Backoff
from moldau.testing.clock import ManualClock


def test_delays_double_up_to_the_longest_and_begin_anew() -> None:
    backoff = Backoff(ManualClock(), Random(1), first_s=0.1, longest_s=1.0)
    for around in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        assert 0.8 * around <= backoff.next_delay() <= 1.2 * around
    backoff.reset()
    assert backoff.next_delay() <= 0.12


async def test_it_waits_by_the_clock_and_leaves_no_timer_behind() -> None:
    clock = ManualClock()
    backoff = Backoff(clock, Random(1), first_s=1.0)
    waiting = asyncio.ensure_future(backoff.wait())
    await asyncio.sleep(0)
    clock.advance(0.5)
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.advance(1.0)
    await waiting
    given_up = asyncio.ensure_future(backoff.wait())
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    assert clock.pending == 0

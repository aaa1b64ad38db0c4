"""Time and timers as an interface, so that a simulation can supply its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A pending call; ``cancel`` is safe at any time, also after it fired."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """What code that cares about time is handed."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch: record timestamps, retention."""
        ...

    def monotonic(self) -> float:
        """Returns seconds that never run backwards: timeouts and durations."""
        ...

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Call back after ``delay`` seconds on the running event loop."""
        ...


def steady_ms(clock: Clock) -> int:
    """Returns whole milliseconds that never run backwards."""
    return int(clock.monotonic() * 1000)


async def pause(clock: Clock, seconds: float) -> None:
    """Returns after so long."""
    over = asyncio.Event()
    timer = clock.call_later(seconds, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()

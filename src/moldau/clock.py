"""Time and timers as an interface, so that a simulation can supply its own."""

from __future__ import annotations

import time
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
        """Seconds that never run backwards: timeouts and durations."""
        ...

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Call back after ``delay`` seconds on the event loop."""
        ...


class TimerSource(Protocol):
    """The part of an asyncio loop that a clock needs (this layer does not import asyncio)."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> Timer: ...


class SystemClock:
    """The real time; timers run on the given loop."""

    def __init__(self, loop: TimerSource) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        return self._loop.call_later(delay, callback)

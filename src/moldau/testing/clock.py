"""Time that stands still until a test moves it.

    clock = ManualClock()
    clock.call_later(0.5, wake)
    clock.advance(0.5)  # wake() has run

Calls that are due run in the order of their times, and of their making where the times are equal;
a call that schedules another within the same span has it run as well, as a loop would.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count


class ManualTimer:
    """A pending call. Cancelled or done, it holds on to nothing."""

    __slots__ = ("callback", "due")

    def __init__(self, due: float, callback: Callable[[], object]) -> None:
        self.due = due
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """A ``Clock`` whose hands a test holds."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = now_ms
        self._elapsed = 0.0
        self._numbers = count()
        self._timers: list[tuple[float, int, ManualTimer]] = []

    def now_ms(self) -> int:
        return self._start_ms + round(self._elapsed * 1000)

    def monotonic(self) -> float:
        return self._elapsed

    def call_later(self, delay: float, callback: Callable[[], object]) -> ManualTimer:
        timer = ManualTimer(self._elapsed + max(delay, 0.0), callback)
        heapq.heappush(self._timers, (timer.due, next(self._numbers), timer))
        return timer

    @property
    def pending(self) -> int:
        """How many calls are still to come."""
        return sum(timer.callback is not None for _, _, timer in self._timers)

    def run_due(self) -> None:
        """Run what is due now, without any time passing."""
        self.advance(0.0)

    def advance(self, seconds: float) -> None:
        """Let time pass, and run what becomes due on the way."""
        end = self._elapsed + seconds
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            self._elapsed = max(self._elapsed, due)
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()
        self._elapsed = end

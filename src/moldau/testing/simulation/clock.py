"""The clocks of a simulated machine: virtual time, with a wall clock that may be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moldau.machine import Timer
from moldau.testing.simulation.loop import SimulatedLoop

START_MS: Final = 1_700_000_000_000
"""What the wall clocks show when a world begins."""


class SimulatedClock:
    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.ahead_ms = 0
        """How much the wall clock differs from the true time; may be set at any time."""

    def now_ms(self) -> int:
        return START_MS + int(self._loop.time() * 1000) + self.ahead_ms

    def monotonic(self) -> float:
        return self._loop.time()

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        return self._loop.call_later(delay, callback)

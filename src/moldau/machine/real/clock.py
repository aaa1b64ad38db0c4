"""The real time."""

from __future__ import annotations

import time
from asyncio import get_running_loop
from collections.abc import Callable

from moldau.machine.clock import Timer
from moldau.native import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class SystemClock:
    """The machine's clocks; timers run on the loop that is running when they are made."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        return get_running_loop().call_later(delay, callback)

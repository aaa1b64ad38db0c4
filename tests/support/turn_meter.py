"""How long the turns of an event loop are, in CPU time: what everybody else has to wait for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MIB = 1024 * 1024


class TurnMeter:
    """The longest turn since it was made, and how much memory the process took at most."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        self._resident_before = _status_bytes("VmRSS")

    @property
    def grown_bytes(self) -> int:
        return _status_bytes("VmHWM") - self._resident_before


@contextmanager
def metered_turns() -> Iterator[TurnMeter]:
    """Measures the callbacks of asyncio's loop in this thread."""
    meter = TurnMeter()
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        before = time.thread_time()
        run(handle)
        meter.longest_s = max(meter.longest_s, time.thread_time() - before)

    asyncio.Handle._run = timed  # type: ignore[method-assign, assignment]
    try:
        yield meter
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]


def _status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {name}")

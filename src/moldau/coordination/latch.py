"""Something to wait for that happens once, or not in time."""

from __future__ import annotations

import asyncio

from moldau.machine.clock import Clock


class Latch:
    """Closed until it is opened, and open from then on."""

    def __init__(self) -> None:
        self.is_open = False
        self._waiters: list[asyncio.Future[None]] = []

    def open(self) -> None:
        self.is_open = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            _release(waiter)

    async def wait(self, clock: Clock, within_s: float) -> bool:
        """Returns when it is open, or time is up: whether it is."""
        if self.is_open:
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        timer = clock.call_later(within_s, lambda: _release(waiter))
        try:
            await waiter
        finally:
            timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return self.is_open


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

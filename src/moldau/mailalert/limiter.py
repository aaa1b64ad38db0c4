"""A rate limiter that makes callers wait: a token bucket with a burst and a warm-up.

In any span of ``t`` seconds at most ``burst + rate * t`` permits are given. With the default burst
of 1 permits come one by one, ``1 / rate`` seconds apart, so that no second sees more than ``rate``.

    limiter = RateLimiter(200)
    limiter.acquire()          # returns when it is this caller's turn

Callers are served in the order in which they came: each takes the next free place in time and
sleeps until then, so nobody is overtaken and nobody starves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

COLD_FACTOR: Final = 3.0
"""How many times slower than ``rate`` a limiter with a warm-up starts."""


class TokenBucket:
    """The arithmetic alone: no clock, no waiting, no lock.

    Instead of counting tokens it keeps the moment at which the bucket will be full again (the
    generic cell rate algorithm): one number, no drift, and no need to refill.
    """

    __slots__ = ("_burst", "_full_at", "_interval", "_warm_up", "_warmth")

    def __init__(self, rate: float, *, burst: int = 1, warm_up: float = 0.0) -> None:
        if not rate > 0:
            raise ValueError(f"rate is {rate}, but must be above 0")
        if burst < 1:
            raise ValueError(f"burst is {burst}, but must be at least 1")
        if warm_up < 0:
            raise ValueError(f"warm_up is {warm_up}, but must not be negative")
        self._interval = 1.0 / rate
        self._burst = burst
        self._warm_up = warm_up
        self._warmth = 0.0
        """Seconds of work behind us, up to ``warm_up``; idle time takes them away again."""
        self._full_at = float("-inf")

    def wait_for(self, now: float, permits: int = 1) -> float:
        """How long a caller of this moment would have to wait."""
        interval, allowance = self._terms(now)
        ahead = max(0.0, self._full_at - now)
        return max(0.0, ahead + min(permits, self._burst) * interval - allowance)

    def reserve(self, now: float, permits: int = 1) -> float:
        """Take permits, to be used after the answered number of seconds.

        More permits than the burst are given as well; whoever comes next waits for the rest.
        """
        wait = self.wait_for(now, permits)
        idle = max(0.0, now - self._full_at)
        interval, _ = self._terms(now)
        if self._warm_up:
            spent = max(0.0, self._warmth - idle) + permits * interval
            self._warmth = min(self._warm_up, spent)
        self._full_at = max(self._full_at, now) + permits * interval
        return wait

    def _terms(self, now: float) -> tuple[float, float]:
        """Seconds that a permit costs now, and by how many seconds callers may run ahead."""
        interval, allowance = self._interval, self._burst * self._interval
        if self._warm_up:
            warmth = max(0.0, self._warmth - max(0.0, now - self._full_at)) / self._warm_up
            interval *= COLD_FACTOR - (COLD_FACTOR - 1.0) * warmth
            # A cold bucket must not pay out its burst: that is what warming up is for.
            allowance = interval + warmth * (allowance - self._interval)
        return interval, allowance


class RateLimiter:
    """Blocks callers so that together they keep to ``rate`` permits a second. Thread-safe."""

    def __init__(
        self,
        rate: float,
        *,
        burst: int = 1,
        warm_up: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.rate = rate
        self.burst = burst
        self._bucket = TokenBucket(rate, burst=burst, warm_up=warm_up)
        self._lock = threading.Lock()
        self._clock = clock
        self._sleep = sleep

    def acquire(self, permits: int = 1, timeout: float | None = None) -> bool:
        """Wait for permits; False, and nothing taken, when that would last beyond ``timeout``."""
        if permits < 1:
            raise ValueError(f"permits is {permits}, but must be at least 1")
        with self._lock:
            now = self._clock()
            if timeout is not None and self._bucket.wait_for(now, permits) > timeout:
                return False
            wait = self._bucket.reserve(now, permits)
        if wait > 0:
            self._sleep(wait)
        return True

    def try_acquire(self, permits: int = 1) -> bool:
        """Take permits only if they are there now."""
        return self.acquire(permits, timeout=0.0)

    def __repr__(self) -> str:
        return f"RateLimiter({self.rate:g}, burst={self.burst})"

"""How much of its quota a client uses: a rate over a sliding window, or a bucket of tokens.

The arithmetic is that of Kafka's ``Rate``, ``SampledStat``, ``TokenBucket`` and ``QuotaUtils``.
Times are milliseconds of a steady clock; one that is put back costs nobody more than a moment. No
quota, however small or large, makes the arithmetic fail.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Final, NamedTuple, Protocol

MAX_THROTTLE_MS: Final = 2**31 - 1


class Window(NamedTuple):
    """``quota.window.num`` samples of ``quota.window.size.seconds`` each."""

    samples: int
    sample_ms: int

    @property
    def span_ms(self) -> int:
        return self.samples * self.sample_ms


class Meter(Protocol):
    """What is kept of one client."""

    def record(self, value: float, quota: float, now_ms: int) -> None:
        """Count something that was done, or take it back (negative)."""
        ...

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Returns for how long to hold back until the quota is kept again; 0 if it is."""
        ...

    def is_idle(self, now_ms: int) -> bool:
        """Returns whether a new meter would say the same."""
        ...


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """Units per second over the window."""

    __slots__ = ("_samples", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._samples: deque[_Sample] = deque()

    def record(self, value: float, _quota: float, now_ms: int) -> None:
        self._expire(now_ms)
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._window.sample_ms:
            samples.append(_Sample(now_ms))
        samples[-1].value += value
        samples[-1].last_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """Returns the rate, per second."""
        elapsed_ms = self._elapsed_ms(now_ms)
        return self._total() / elapsed_ms * 1000

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """To bring the rate R over a time W down to the quota Q takes (R - Q) / Q * W."""
        elapsed_ms = self._elapsed_ms(now_ms)
        rate = self._total() / elapsed_ms * 1000
        return _wait_ms(rate - quota, quota, elapsed_ms)

    def is_idle(self, now_ms: int) -> bool:
        self._expire(now_ms)
        return not self._samples

    def _total(self) -> float:
        return sum([sample.value for sample in self._samples])

    def _expire(self, now_ms: int) -> None:
        """A sample that overlaps the window counts, even if it started before."""
        samples = self._samples
        if samples and now_ms < samples[-1].last_ms:  # the clock was put back
            ahead_ms = samples[-1].last_ms - now_ms
            for sample in samples:
                sample.start_ms -= ahead_ms
                sample.last_ms -= ahead_ms
        while samples and now_ms - samples[0].last_ms >= self._window.span_ms:
            samples.popleft()

    def _elapsed_ms(self, now_ms: int) -> int:
        """Returns the time that the samples stand for: as if all samples but the present one were
        complete from the start, or the first request of a client would look like a flood.
        """
        self._expire(now_ms)
        samples, sample_ms = self._window
        elapsed_ms = now_ms - self._samples[0].start_ms if self._samples else 0
        missing = samples - 1 - elapsed_ms // sample_ms
        return max(elapsed_ms + max(missing, 0) * sample_ms, 1)


class TokenBucket:
    """Tokens that come back at the rate of the quota, at most those of a whole window: bursts are
    let through, and their debt is paid off before the next one (KIP-599).
    """

    __slots__ = ("_last_ms", "_quota", "_tokens", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._quota: float | None = None
        self._tokens = 0.0
        self._last_ms = 0

    def record(self, value: float, quota: float, now_ms: int) -> None:
        self._tokens = min(self._burst(quota), self.measure(quota, now_ms) - value)

    def measure(self, quota: float, now_ms: int) -> float:
        """Returns the tokens that are left; less than 0 is debt."""
        tokens = self._burst(quota)
        if self._quota is not None:
            tokens = min(tokens, self._tokens + quota * max(now_ms - self._last_ms, 0) / 1000)
        self._quota, self._tokens, self._last_ms = quota, tokens, now_ms
        return tokens

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        return _wait_ms(-self.measure(quota, now_ms), quota, 1000)

    def is_idle(self, now_ms: int) -> bool:
        quota = self._quota
        return quota is None or self.measure(quota, now_ms) >= self._burst(quota)

    def _burst(self, quota: float) -> float:
        return quota * self._window.span_ms / 1000


def _wait_ms(excess: float, quota: float, unit_ms: int) -> int:
    """Returns the time in which a quota per unit of time makes up for an excess: rounded as Java
    does, half up, and no more than an answer can say.
    """
    if not excess > 0:
        return 0
    wait_ms = excess / quota * unit_ms if quota > 0 else inf
    return int(min(MAX_THROTTLE_MS, wait_ms) + 0.5)

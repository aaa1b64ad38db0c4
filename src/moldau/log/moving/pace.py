"""How fast replicas are moved: ``replica.alter.log.dirs.io.max.bytes.per.second``, all together."""

from __future__ import annotations

from typing import Final

from moldau.machine.clock import Clock

_LONGEST_WAIT_S: Final = 1.0
"""A change of the rate is noticed within that time."""
_SHORTEST_WAIT_S: Final = 0.001
_SLICE_BYTES: Final = 1_048_576
_SMALLEST_SLICE: Final = 4096


class Pace:
    """Copied bytes are a debt, which time pays off at the rate that is in force."""

    def __init__(self, clock: Clock, rate: int) -> None:
        self._clock = clock
        self._debt = 0.0
        self._since = clock.monotonic()
        self.rate = rate
        """Bytes per second."""

    @property
    def slice_bytes(self) -> int:
        """How much to copy at once."""
        return max(min(_SLICE_BYTES, self.rate), _SMALLEST_SLICE)

    def spend(self, size: int) -> None:
        self._pay()
        self._debt += size

    def wait_s(self) -> float:
        """Returns how long to wait before asking again; 0 when the next slice may be copied."""
        self._pay()
        if self._debt <= self.rate * _SHORTEST_WAIT_S:
            return 0.0
        return min(self._debt / self.rate, _LONGEST_WAIT_S) if self.rate else _LONGEST_WAIT_S

    def _pay(self) -> None:
        now = self._clock.monotonic()
        self._debt = max(self._debt - self.rate * (now - self._since), 0.0)
        self._since = now

"""Waiting longer and longer between attempts at what keeps failing."""

from __future__ import annotations

from random import Random
from typing import Final

from moldau.machine.clock import Clock, pause

FIRST_S: Final = 0.1
LONGEST_S: Final = 10.0
_JITTER: Final = 0.2
"""Brokers that failed at the same moment should not all try again at the same one."""


class Backoff:
    """Doubles from ``first_s`` to ``longest_s``, each a little longer or shorter by chance."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        first_s: float = FIRST_S,
        longest_s: float = LONGEST_S,
    ) -> None:
        self._clock = clock
        self._random = random
        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = first_s

    def reset(self) -> None:
        """What was tried has succeeded."""
        self._next_s = self._first_s

    def next_delay(self) -> float:
        """Returns the seconds to wait before the next attempt."""
        delay = self._next_s
        self._next_s = min(2 * delay, self._longest_s)
        return delay * (1 + _JITTER * (2 * self._random.random() - 1))

    async def wait(self) -> None:
        await pause(self._clock, self.next_delay())

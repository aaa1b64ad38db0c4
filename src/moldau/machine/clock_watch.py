"""Noticing that the wall clock was set: it went otherwise than the steady one."""

from __future__ import annotations

from typing import Final

from moldau.machine.clock import Clock

JUMP_MS: Final = 60_000
"""A clock that is put right goes astray by less between two looks, one that is wrong by more."""


class ClockWatch:
    """Tells by how much the wall clock was set since somebody last looked."""

    __slots__ = ("_ahead_ms", "_clock")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = self._difference_ms()

    def _difference_ms(self) -> float:
        return self._clock.now_ms() - self._clock.monotonic() * 1000

    def jump_ms(self) -> int:
        """Returns 0 unless it was a jump; negative for one back."""
        before, self._ahead_ms = self._ahead_ms, self._difference_ms()
        jump = int(self._ahead_ms - before)
        return jump if abs(jump) >= JUMP_MS else 0

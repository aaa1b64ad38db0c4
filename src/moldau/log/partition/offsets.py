"""The three offsets that say how far a log reaches."""

from __future__ import annotations


class LogOffsets:
    """``start`` ≤ ``recovery_point`` ≤ ``end``. The parts of a log share one of these, and each of
    them moves its own: retention the start, appends and truncations the end, flushes the recovery
    point.
    """

    __slots__ = ("end", "recovery_point", "start")

    def __init__(self, start: int, recovery_point: int, end: int) -> None:
        self.start = start
        """The first offset that can be read."""
        self.recovery_point = recovery_point
        """Everything before it is durable."""
        self.end = end
        """What the next record will get."""

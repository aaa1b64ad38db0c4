"""The three offsets that say how far a log reaches, as its parts see them."""

from __future__ import annotations


class LogOffsets:
    """``log_start_offset`` ≤ ``recovery_point`` ≤ ``log_end_offset``.

    They are fields of the log, because every request reads them; each of its parts moves its own:
    retention the start, appends and truncations the end, flushes the recovery point.
    """

    __slots__ = ("log_end_offset", "log_start_offset", "recovery_point")

    def __init__(self, log_start_offset: int, recovery_point: int, log_end_offset: int) -> None:
        self.log_start_offset = log_start_offset
        """The first offset that can be read."""
        self.recovery_point = recovery_point
        """Everything before it is durable."""
        self.log_end_offset = log_end_offset
        """What the next record will get."""

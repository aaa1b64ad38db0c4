"""The three offsets that say how far a log reaches, as its parts see them."""

from __future__ import annotations

from typing import Protocol


class LogOffsets(Protocol):
    """``log_start_offset`` ≤ ``recovery_point`` ≤ ``log_end_offset``.

    They are fields of the log, because every request reads them; each of its parts moves its own:
    retention the start, appends and truncations the end, flushes the recovery point.
    """

    log_start_offset: int
    """The first offset that can be read."""
    recovery_point: int
    """Everything before it is durable."""
    log_end_offset: int
    """What the next record will get."""

"""When finished records are committed."""

from __future__ import annotations

from enum import Enum


class AckMode(Enum):
    RECORD = "record"
    """As soon as a record is finished; what finishes meanwhile goes into the next commit."""
    BATCH = "batch"
    """When all records that one poll brought of a partition are finished."""
    TIME = "time"
    """Every ``ack_time_ms``."""
    COUNT = "count"
    """Every ``ack_count`` finished records."""
    MANUAL = "manual"
    """A record is finished when the handler's second argument says so; committed like RECORD."""


class CommitPolicy:
    """Pure: told what was finished and what time it is, says when to commit."""

    def __init__(self, mode: AckMode, *, count: int, interval: float) -> None:
        self._mode = mode
        self._count = count
        self._interval = interval
        self._finished = 0
        self._last = 0.0

    def started(self, now: float) -> None:
        self._last = now

    def finished(self, records: int) -> None:
        """Committable offsets moved ahead by so many records."""
        self._finished += records

    def is_due(self, now: float) -> bool:
        if not self._finished:
            return False
        if self._mode is AckMode.TIME:
            return now - self._last >= self._interval
        if self._mode is AckMode.COUNT:
            return self._finished >= self._count
        return True

    def next_due(self) -> float | None:
        """When a commit is due by time alone."""
        if self._mode is AckMode.TIME and self._finished:
            return self._last + self._interval
        return None

    def committed(self, now: float) -> None:
        self._finished = 0
        self._last = now

"""Milliseconds and kio's ``timedelta`` and ``datetime``, which stand for the same fields."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def milliseconds(duration: timedelta | int) -> int:
    """A duration as whole milliseconds; an int already is."""
    return duration if isinstance(duration, int) else duration // _MILLISECOND


def timestamp_ms(time: datetime | int | None) -> int:
    """A time as milliseconds since the epoch, -1 for none; an int already is."""
    if time is None:
        return -1
    return time if isinstance(time, int) else (time - EPOCH) // _MILLISECOND

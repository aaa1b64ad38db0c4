"""Times as people write them: ``10s``, ``5 minutes``, ``1h``."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {
    "ms": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1000, "sec": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
}  # fmt: skip
_DURATION: Final = re.compile(r"(\d+)\s*([a-z]+)")


def milliseconds(text: str) -> int:
    """``ValueError`` says what a duration looks like."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"{text!r} is no duration: write 500ms, 10s, 5m, 1h or 2d")
    return int(found[1]) * _UNITS[found[2]]


def interval(duration: int) -> str:
    """Milliseconds in Spark's words."""
    return f"{duration} milliseconds"

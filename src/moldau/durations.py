"""Lengths of time as people write them, read in one way everywhere.

``500ms``, ``10s``, ``1h30m``, ``1.5h``; ``10 minutes`` and ``1 hour 30 minutes`` as Spark's
intervals; ``PT1H30M`` and ``P7D`` as ISO 8601 and Kafka's tools have it.
"""

from __future__ import annotations

import re
from typing import Final

MS: Final = 1.0
SECOND: Final = 1000.0
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

_UNITS: Final = {
    **dict.fromkeys(("us", "µs", "microsecond", "microseconds"), MS / 1000),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), MS),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), SECOND),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), MINUTE),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), HOUR),
    **dict.fromkeys(("d", "day", "days"), DAY),
    **dict.fromkeys(("w", "week", "weeks"), 7 * DAY),
}
_NUMBER: Final = r"(\d+(?:\.\d+)?)"
_PART: Final = re.compile(rf"{_NUMBER}\s*([a-zµ]+)\s*", re.ASCII | re.IGNORECASE)
_ALL: Final = re.compile(rf"(?:{_PART.pattern})+", re.ASCII | re.IGNORECASE)
_ISO: Final = re.compile(
    r"P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_OF_NO_LENGTH: Final = ("month", "months", "y", "year", "years")


def parse_duration_ms(text: str, *, bare: float | None = None) -> int:
    """Milliseconds; ``bare`` is the unit of a number without one. ``ValueError`` if it is none."""
    word = text.strip().lower()
    if bare is not None and re.fullmatch(_NUMBER, word, re.ASCII):
        return round(float(word) * bare)
    if word.startswith("p"):
        return parse_iso_duration_ms(text)
    word = word.removeprefix("interval ").lstrip()
    if _ALL.fullmatch(word) is None:
        raise ValueError(_explained(text))
    parts = _PART.findall(word)
    for _, unit in parts:
        if unit in _OF_NO_LENGTH:
            raise ValueError(f"{text!r} has no fixed length: count it in days, as in 30d")
        if unit not in _UNITS:
            raise ValueError(_explained(text))
    return round(sum(float(number) * _UNITS[unit] for number, unit in parts))


def parse_iso_duration_ms(text: str) -> int:
    """What Java's ``Duration`` reads, but nothing before now."""
    found = _ISO.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not an ISO 8601 duration such as PT1H30M or P7D")
    numbers = (float(number or 0) for number in found.groups())
    return round(sum(map(float.__mul__, numbers, (DAY, HOUR, MINUTE, SECOND))))


def _explained(text: str) -> str:
    return (
        f"{text!r} is not a duration: use forms like 500ms, 90s, 15m, 1h30m, 2d, 10 minutes or PT1H"
    )

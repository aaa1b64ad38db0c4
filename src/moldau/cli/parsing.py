"""Reading what people type: offsets, points in time, durations, sizes, ``key=value`` pairs.

Every function raises ``ValueError`` with a sentence that names the allowed forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from moldau import durations

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)(i?b)?", re.IGNORECASE)
_SIZE_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


class Anchor(Enum):
    """What an offset counts from."""

    EARLIEST = "earliest"
    LATEST = "latest"
    ABSOLUTE = "absolute"
    FROM_END = "from the end"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class StartAt:
    """Where reading begins: an anchor and, where it needs one, a number."""

    anchor: Anchor
    number: int = 0


def parse_offset(text: str) -> StartAt:
    """``earliest``, ``latest``, an offset, or ``-N`` for the last N records of each partition."""
    word = text.strip().lower()
    if word in {"earliest", "beginning", "start"}:
        return StartAt(Anchor.EARLIEST)
    if word in {"latest", "end"}:
        return StartAt(Anchor.LATEST)
    try:
        number = int(word)
    except ValueError:
        raise ValueError(
            f"{text!r} is not an offset: use a number, -N for the last N, earliest or latest"
        ) from None
    if number < 0:
        return StartAt(Anchor.FROM_END, -number)
    return StartAt(Anchor.ABSOLUTE, number)


def parse_duration_ms(text: str) -> int:
    """``90s``, ``15m``, ``1h30m``, ``2d``, ``PT1H``; a bare number counts seconds."""
    return durations.parse_duration_ms(text, bare=durations.SECOND)


def parse_timestamp_ms(text: str) -> int:
    """An ISO 8601 date or time (local unless it names a zone), or epoch seconds or milliseconds."""
    word = text.strip()
    if re.fullmatch(r"\d+", word):
        number = int(word)
        # Seconds reach 11 digits in the year 5138; milliseconds had 12 digits in 1973.
        return number if len(word) > 11 else number * 1000
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a point in time: use 2025-01-31T12:00:00Z, a date or epoch millis"
        ) from None
    return round(moment.timestamp() * 1000)


def format_timestamp(timestamp_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds: sorts as text and reads back with any library."""
    moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def parse_size(text: str) -> int:
    """``512``, ``16k``, ``1MB``, ``2GiB``: bytes, in powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size: use forms like 512, 16k, 1MB or 2GiB")
    return round(float(match[1]) * _SIZE_FACTORS[match[2].lower()])


def format_size(size: int) -> str:
    """The same units, one decimal: ``1.4 MB``."""
    amount = float(size)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1024:
            return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TB"


def parse_pair(text: str) -> tuple[str, str]:
    """One ``name=value``; the value may hold further ``=`` signs or be empty."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise ValueError(f"{text!r} is not of the form name=value")
    return name.strip(), value


def parse_pairs(texts: Iterable[str]) -> dict[str, str]:
    """Several pairs; a name that comes twice keeps the last value, as in a properties file."""
    return dict(parse_pair(text) for text in texts)


def unescape(text: str) -> str:
    r"""Understand ``\n``, ``\t``, ``\r``, ``\0``, ``\\`` and ``\xHH`` in options."""

    def replace(match: re.Match[str]) -> str:
        escape = match[1]
        return chr(int(escape[1:], 16)) if escape[0] == "x" else _ESCAPES[escape]

    return re.sub(r"\\(x[0-9a-fA-F]{2}|[ntr0\\])", replace, text)


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


def parse_assignment(text: str) -> tuple[int, tuple[int, ...]]:
    """``0:1,2``: partition 0 on brokers 1 and 2, the first one preferred as leader."""
    partition, separator, brokers = text.partition(":")
    try:
        if not separator:
            raise ValueError
        return int(partition), tuple(int(broker) for broker in brokers.split(","))
    except ValueError:
        raise ValueError(
            f"{text!r} is not an assignment: use PARTITION:BROKER[,BROKER]…, as in 0:1,2"
        ) from None

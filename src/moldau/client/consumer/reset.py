"""``auto.offset.reset``: where to start without a position (KIP-1106 for durations)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from moldau.durations import parse_iso_duration_ms

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1


class ResetKind(Enum):
    NONE = "none"
    """An error: the user decides."""
    EARLIEST = "earliest"
    LATEST = "latest"
    BY_DURATION = "by_duration"
    """At the first record that is not older than a given time."""


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    kind: ResetKind
    duration_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> ResetPolicy:
        """ValueError if this is no value of ``auto.offset.reset``."""
        word = text.strip().lower()
        if word.startswith(f"{ResetKind.BY_DURATION.value}:"):
            return cls(ResetKind.BY_DURATION, _milliseconds(word.partition(":")[2]))
        for kind in (ResetKind.EARLIEST, ResetKind.LATEST, ResetKind.NONE):
            if word == kind.value:
                return cls(kind)
        raise ValueError(
            f"auto.offset.reset {text!r} is none of earliest, latest, none and "
            "by_duration:<ISO 8601 duration> such as by_duration:PT1H"
        )

    def timestamp(self, now_ms: int) -> int | None:
        """What to ask ListOffsets for; None for no reset."""
        match self.kind:
            case ResetKind.NONE:
                return None
            case ResetKind.EARLIEST:
                return EARLIEST_TIMESTAMP
            case ResetKind.LATEST:
                return LATEST_TIMESTAMP
            case ResetKind.BY_DURATION:
                return max(0, now_ms - self.duration_ms)


TO_EARLIEST = ResetPolicy(ResetKind.EARLIEST)
TO_LATEST = ResetPolicy(ResetKind.LATEST)


def _milliseconds(text: str) -> int:
    try:
        return parse_iso_duration_ms(text)
    except ValueError as error:
        raise ValueError(f"auto.offset.reset: {error}") from None

"""What verification tells."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Level(Enum):
    NOTE = "note"
    """Something that a stop or a crash leaves behind, and that the next start puts in order."""

    DAMAGE = "damage"
    """Something that should not be."""


class Finding(NamedTuple):
    path: str
    """The file, or the directory."""
    problem: str
    at_start: str
    """What a broker does about it when it starts."""
    position: int | None = None
    """Byte in the file."""
    offset: int | None = None
    """Offset in the log."""
    level: Level = Level.DAMAGE


@dataclass
class Totals:
    """What has been looked at so far."""

    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    damage: int = 0
    notes: int = 0


class Expectation(NamedTuple):
    """What the directory's own files say about one log before it is read."""

    clean: bool
    """The broker was stopped properly: nothing may be unfinished."""
    recovery_point: int
    """From here on a start reads everything, unless the stop was clean."""

    def is_checked_at_start(self, offset: int) -> bool:
        return not self.clean and offset >= self.recovery_point

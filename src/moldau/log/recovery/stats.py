"""What opening logs costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class RecoveryStats:
    """Shared by the logs of a directory."""

    segments_scanned: int = 0
    bytes_scanned: int = 0
    bytes_truncated: int = 0
    segments_removed: int = 0

    def add(self, other: RecoveryStats) -> None:
        self.segments_scanned += other.segments_scanned
        self.bytes_scanned += other.bytes_scanned
        self.bytes_truncated += other.bytes_truncated
        self.segments_removed += other.segments_removed

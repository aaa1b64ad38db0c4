"""What opening logs costs."""

from __future__ import annotations


class RecoveryStats:
    """Shared by the logs of a directory."""

    __slots__ = ("bytes_scanned", "bytes_truncated", "segments_removed", "segments_scanned")

    def __init__(self) -> None:
        self.segments_scanned = 0
        self.bytes_scanned = 0
        self.bytes_truncated = 0
        self.segments_removed = 0

    def add(self, other: RecoveryStats) -> None:
        self.segments_scanned += other.segments_scanned
        self.bytes_scanned += other.bytes_scanned
        self.bytes_truncated += other.bytes_truncated
        self.segments_removed += other.segments_removed

"""Which part of which log is worth cleaning. Pure: facts about logs in, a choice out.

The rules are Kafka's. A log is cleaned up to the first segment that is active, holds anything not
yet stable and committed, or has a record younger than ``min.compaction.lag.ms``. It is due when its
dirty share exceeds ``min.cleanable.dirty.ratio``, or when something dirty has waited for longer
than ``max.compaction.lag.ms``. The dirtiest goes first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from moldau.log.partition.log import PartitionLog
from moldau.log.segment.segment import Segment


class Cleanable(NamedTuple):
    """What cleaning a log would be about."""

    log: PartitionLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    """Where a segment begins."""
    segments: tuple[Segment, ...]
    """All up to the first uncleanable offset."""
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    """For how long something has waited beyond ``max.compaction.lag.ms``."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        if self.delay_ms and self.cleanable_bytes:
            return True
        return self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def find_cleanable(
    log: PartitionLog, checkpoint: int | None, high_watermark: int, now_ms: int
) -> Cleanable:
    """Returns what could be cleaned now. ``checkpoint`` is where the last cleaning ended, if
    known.
    """
    first_dirty = first_dirty_offset(log, checkpoint)
    segments = log.segments
    bases = [segment.base_offset for segment in segments]
    dirty = max(bisect_right(bases, first_dirty) - 1, 0)
    stable = log.last_stable_offset(high_watermark)
    end = len(segments) - 1
    if stable < bases[-1]:
        end = max(bisect_right(bases, stable) - 1, 0)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for number in range(dirty, end):
            if segments[number].max_timestamp.timestamp > now_ms - lag_ms:
                end = number
                break
    end = max(end, dirty)
    return Cleanable(
        log,
        first_dirty,
        max(bases[end], first_dirty),
        segments[:end],
        sum(s.size for s in segments[: bisect_right(bases, first_dirty - 1)]),
        sum(s.size for s in segments[dirty:end]),
        _delay_ms(log, segments[dirty:-1], now_ms),
    )


def first_dirty_offset(log: PartitionLog, checkpoint: int | None) -> int:
    """Returns where the dirty part begins: a checkpoint that cannot be true is not believed."""
    start = log.log_start_offset
    if checkpoint is None or not start <= checkpoint <= log.log_end_offset:
        return start
    return checkpoint


def _delay_ms(log: PartitionLog, dirty: tuple[Segment, ...], now_ms: int) -> int:
    oldest_ms = now_ms - log.config.max_compaction_lag_ms
    if oldest_ms <= 0:
        return 0
    times = [segment.load_rolling_timestamp() for segment in dirty]
    return oldest_ms - min((time for time in times if 0 < time < oldest_ms), default=oldest_ms)


def dirtiest(candidates: Iterable[Cleanable]) -> Cleanable | None:
    """Returns the one to clean first, if any is due."""
    due = [candidate for candidate in candidates if candidate.is_due]
    return max(due, key=lambda candidate: candidate.dirty_ratio, default=None)

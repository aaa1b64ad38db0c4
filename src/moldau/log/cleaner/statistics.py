"""How the cleaners are doing, in the figures of Kafka's LogCleaner metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moldau.log.cleaner.cleanable import Cleanable
from moldau.log.cleaner.messages import CleanStats


class LastCleaning(NamedTuple):
    seconds: float
    stats: CleanStats


class CleanerStatistics:
    """Figures of the last look at the logs and of the last cleaning of each cleaner."""

    def __init__(self, now_ms: int) -> None:
        self.last_run_ms = now_ms
        self.max_dirty_percent = 0
        self.max_compaction_delay_s = 0
        self._last: dict[object, LastCleaning] = {}
        self._dead: set[object] = set()

    def looked(self, candidates: Sequence[Cleanable], now_ms: int) -> None:
        """The logs were looked at, to choose one."""
        self.last_run_ms = now_ms
        self.max_dirty_percent = int(100 * max((log.dirty_ratio for log in candidates), default=0))
        self.max_compaction_delay_s = max((log.delay_ms for log in candidates), default=0) // 1000

    def cleaned(self, cleaner: object, seconds: float, stats: CleanStats) -> None:
        self._last[cleaner] = LastCleaning(seconds, stats)
        self._dead.discard(cleaner)

    def died(self, cleaner: object) -> None:
        """A cleaner ended or fell silent in the middle of its work."""
        self._dead.add(cleaner)

    @property
    def dead_cleaners(self) -> int:
        """Those that have not cleaned anything since they died; each next task starts them anew."""
        return len(self._dead)

    @property
    def max_clean_time_s(self) -> int:
        return int(max((cleaning.seconds for cleaning in self._last.values()), default=0))

    @property
    def max_buffer_utilization_percent(self) -> int:
        used = (cleaning.stats.buffer_utilization for cleaning in self._last.values())
        return int(100 * max(used, default=0))

    @property
    def recopy_percent(self) -> int:
        """How much of what was read had to be written again."""
        read = sum(cleaning.stats.bytes_read for cleaning in self._last.values())
        written = sum(cleaning.stats.bytes_written for cleaning in self._last.values())
        return int(100 * written / max(read, 1))

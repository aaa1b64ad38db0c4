"""Rolling: when the active segment is full or old it is brought into its final form, and the next
one begins.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from moldau.config.values.topic import TopicConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.log.partition.durability import Durability
from moldau.log.partition.events import LogEvents
from moldau.log.partition.health import LogHealth
from moldau.log.partition.producer_snapshots import ProducerSnapshots
from moldau.log.partition.producer_state import ProducerState
from moldau.log.partition.segments import LogSegments
from moldau.log.segment.segment import Segment
from moldau.machine.errors import is_full

_CHEAP_TO_REPLAY_BYTES: Final = 16_384
"""Reading so much at the next start costs no more than a file that says that there is no producer.
Ten thousand quiet partitions then need no such file."""


class SegmentRoller:
    __slots__ = (
        "_durability",
        "_events",
        "_health",
        "_producers",
        "_segments",
        "_snapshots",
        "config",
    )

    def __init__(
        self,
        config: TopicConfig,
        segments: LogSegments,
        producers: ProducerState,
        snapshots: ProducerSnapshots,
        durability: Durability,
        health: LogHealth,
        events: LogEvents,
    ) -> None:
        self.config = config
        self._segments = segments
        self._producers = producers
        self._snapshots = snapshots
        self._durability = durability
        self._health = health
        self._events = events

    def segment_for(
        self, size: int, first: int, last: int, max_timestamp: int, now_ms: int
    ) -> Segment:
        """Returns the segment for the next append: the active one, or a new one if that is full or
        old.
        """
        segment_bytes = self.config.segment_bytes
        if size > segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes do not fit into a segment of {segment_bytes} bytes",
            )
        segment = self._segments.active
        try:
            if (
                segment.size > segment_bytes - size
                or last > segment.max_offset
                or segment.full
                or self._is_old(segment, max_timestamp, now_ms)
            ):
                self._roll(first, now_ms, for_deletion=False)
        except OSError as error:
            raise self._health.storage_error("roll", error) from error
        return self._segments.active

    def _is_old(self, segment: Segment, max_timestamp: int, now_ms: int) -> bool:
        """Returns whether ``segment.ms`` has passed since the first append, by the records' own
        clock.
        """
        if segment.size == 0:
            return False
        span = self.config.segment_ms - self._jitter(segment)
        started = segment.load_rolling_timestamp()
        if started >= 0:
            segment.roll_after = started + span
            return max_timestamp > segment.roll_after
        return now_ms - segment.created_ms > span

    def _jitter(self, segment: Segment) -> int:
        """Spread the rolls of partitions that started together; the same after a restart."""
        limit = min(self.config.segment_jitter_ms, self.config.segment_ms)
        if limit <= 0:
            return 0
        return crc32(f"{self._events.topic_partition}/{segment.base_offset}".encode()) % limit

    def roll(self, base_offset: int, now_ms: int, *, for_deletion: bool = False) -> None:
        """Close the active segment and start a new one at ``base_offset``.

        If the old one is to be deleted at once (``for_deletion``), nothing more is written to it:
        a full disk must not keep it from going.
        """
        with self._health.storage_errors("roll"):
            self._roll(base_offset, now_ms, for_deletion=for_deletion)

    def _roll(self, base_offset: int, now_ms: int, *, for_deletion: bool) -> None:
        """Any step may fail for lack of room: then the active segment is still the active one."""
        segments = self._segments
        active, kept = segments.active, segments.all
        if active.size and for_deletion:
            try:
                self._take_snapshot()
            except OSError as error:
                if not is_full(error):
                    raise
        elif active.size:
            if self.config.flush_messages == 1 and self.config.compact:
                self._durability.sync_before_next(active)
            active.seal()
            self._durability.needs_sync(active.index_paths())
            self._take_snapshot()
        elif active.base_offset == base_offset:
            return
        segment = segments.create(base_offset, self.config, now_ms)
        if not active.size:
            active.remove()
            kept = kept[:-1]
        segments.replace((*kept, segment))
        self._durability.needs_directory_sync()
        self._events.rolled(base_offset)

    def finish(self) -> None:
        """Bring the active segment into its final form before the log is closed (OSError)."""
        active = self._segments.active
        active.seal_indexes()
        # Recovery may have rebuilt the indexes of data that needs no flush itself.
        self._durability.persist_indexes(active)
        if active.size and self.config.preallocate:
            active.file.truncate(active.size)
        if self._producers.producers or active.size > _CHEAP_TO_REPLAY_BYTES:
            self._take_snapshot()

    def _take_snapshot(self) -> None:
        path = self._snapshots.take(self._producers)
        if path is not None:
            self._durability.needs_sync((path,))

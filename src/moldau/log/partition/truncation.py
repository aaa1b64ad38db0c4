"""Dropping the end of a log, or all of it: a follower does so to agree with its leader again."""

from __future__ import annotations

from bisect import bisect_right

from moldau.config.values.topic import TopicConfig
from moldau.log.partition.durability import Durability
from moldau.log.partition.leader_epochs import LeaderEpochs
from moldau.log.partition.offsets import LogOffsets
from moldau.log.partition.producer_snapshots import ProducerSnapshots
from moldau.log.partition.producer_state import ProducerState
from moldau.log.partition.segments import LogSegments


class Truncation:
    """Made for the occasion from the parts of a log. After an OSError nobody knows what is left."""

    def __init__(
        self,
        offsets: LogOffsets,
        segments: LogSegments,
        leader_epochs: LeaderEpochs,
        producers: ProducerState,
        snapshots: ProducerSnapshots,
        durability: Durability,
    ) -> None:
        self._offsets = offsets
        self._segments = segments
        self._leader_epochs = leader_epochs
        self._producers = producers
        self._snapshots = snapshots
        self._durability = durability

    def to(self, offset: int, now_ms: int) -> None:
        """Drop everything from ``offset`` on, which lies behind the first segment's base offset."""
        segments, offsets = self._segments, self._offsets
        kept = bisect_right(segments.bases, offset - 1)
        removed = segments.all[kept:]
        segments.replace(segments.all[:kept])
        active = segments.active
        active.truncate_to(offset)
        for segment in reversed(removed):
            segment.remove()
        end = offsets.log_end_offset = max(active.next_offset(), active.base_offset)
        offsets.log_start_offset = min(offsets.log_start_offset, end)
        self._durability.truncated(active.file)
        self._leader_epochs.truncate_from_end(end)
        self._snapshots.truncate(end)
        self._snapshots.rebuild(self._producers, segments.all, segments.bases[0], end, now_ms)

    def fully(self, offset: int, config: TopicConfig, now_ms: int) -> None:
        """Drop everything and begin again at ``offset``."""
        segments, offsets = self._segments, self._offsets
        for segment in reversed(segments.all):
            segment.remove()
        segments.replace((segments.create(offset, config, now_ms),))
        offsets.log_start_offset = offsets.log_end_offset = offsets.recovery_point = offset
        # With the file, names are synced too: a power cut must not bring the old segments back.
        self._durability.truncated(segments.active.file)
        self._leader_epochs.clear()
        self._snapshots.truncate(-1)
        self._producers.clear(offset)

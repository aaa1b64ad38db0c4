"""What happens to segments that are not written to any more: retention removes the oldest, the
cleaner puts new ones in their places.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.log.partition.events import LogEvents
from moldau.log.partition.health import LogHealth
from moldau.log.partition.offsets import LogOffsets
from moldau.log.partition.producer_snapshots import ProducerSnapshots
from moldau.log.partition.segments import LogSegments
from moldau.log.segment.segment import Segment


class ClosedSegments:
    __slots__ = ("_events", "_health", "_offsets", "_segments", "_snapshots", "being_replaced")

    def __init__(
        self,
        offsets: LogOffsets,
        segments: LogSegments,
        snapshots: ProducerSnapshots,
        health: LogHealth,
        events: LogEvents,
    ) -> None:
        self._offsets = offsets
        self._segments = segments
        self._snapshots = snapshots
        self._health = health
        self._events = events
        self.being_replaced = False
        """The cleaner is renaming files."""

    def remove_before(self, offset: int) -> int:
        """Remove those that hold nothing from ``offset`` on; returns how many.

        While the cleaner renames files they stay, until it is done.
        """
        segments, bases = self._segments, self._segments.bases
        count = 0
        while not self.being_replaced and count + 1 < len(bases) and bases[count + 1] <= offset:
            count += 1
        if count == 0:
            return 0
        removed = segments.all[:count]
        segments.replace_closed(segments.all[count:])
        paths: list[str] = []
        with self._health.fatal_errors("delete segments"):
            for segment in removed:
                paths += segment.mark_deleted()
                self._snapshots.forget(segment.base_offset)
        self._events.segments_removed(paths)
        return count

    def begin_replacing(self, old: Sequence[Segment]) -> None:
        """The files of these are about to be renamed, in a thread, and nothing else may rename or
        remove any until ``replace``. Whatever is needed to read from them is opened, so that
        readers need no names.
        """
        self._health.check()
        with self._health.storage_errors("open segments"):
            for segment in old:
                segment.open_all()
        self.being_replaced = True

    def keep(self) -> None:
        """Nothing was renamed: the old ones stay."""
        self.being_replaced = False
        self.remove_before(self._offsets.log_start_offset)

    def replace(self, old: Sequence[Segment], new: Segment, deleted: Sequence[str]) -> None:
        """One segment has taken the place of ``old`` ones, whose files are now ``deleted``.

        Readers that hold the old ones finish on them.
        """
        self.being_replaced = False
        segments = self._segments.all
        first = segments.index(old[0])
        self._segments.replace_closed((*segments[:first], new, *segments[first + len(old) :]))
        for segment in old[1:]:
            self._snapshots.forget(segment.base_offset)
        self._events.segments_removed(list(deleted))
        self.remove_before(self._offsets.log_start_offset)

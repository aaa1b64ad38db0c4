"""The segments of a log, as a list that is replaced and never changed.

So readers are not disturbed: whoever holds an old list finishes on it, and a file lives as long as
somebody holds it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from moldau.config.values.topic import TopicConfig
from moldau.log.partition.tail import TailPositions
from moldau.log.segment.segment import Segment
from moldau.machine import FileSlice
from moldau.machine.disk import Disk


class LogSegments:
    """Oldest first, and never empty; only the last one, the active one, is written to."""

    __slots__ = ("_disk", "active", "all", "bases", "directory", "tail")

    def __init__(self, disk: Disk, directory: str, segments: Sequence[Segment]) -> None:
        self._disk = disk
        self.directory = directory
        self.tail = TailPositions()
        self.replace(segments)

    @property
    def size(self) -> int:
        """Bytes in all of them."""
        return sum(segment.size for segment in self.all)

    def index_of(self, offset: int) -> int:
        """Returns the number of the segment that holds ``offset``."""
        return max(bisect_right(self.bases, offset) - 1, 0)

    def from_offset(self, offset: int) -> tuple[Segment, ...]:
        """Returns the segment that holds ``offset``, and all behind it."""
        return self.all[self.index_of(offset) :]

    def replace(self, segments: Sequence[Segment]) -> None:
        self.replace_closed(segments)
        self.tail.forget()

    def replace_closed(self, segments: Sequence[Segment]) -> None:
        """As ``replace``, where the active one is the same as before."""
        self.all = tuple(segments)
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    def create(self, base_offset: int, config: TopicConfig, now_ms: int) -> Segment:
        """Make the files of a new segment; it is not in the list yet."""
        segment = Segment.with_config(
            self._disk, self.directory, base_offset, config, created_ms=now_ms
        )
        try:
            segment.create(config.segment_bytes if config.preallocate else 0)
        except OSError:
            # A file without a segment would be taken for the end of the log at the next start.
            segment.remove()
            raise
        return segment

    def locate(
        self, offset: int, max_bytes: int, upper: int, end: int, min_one_batch: bool
    ) -> FileSlice | None:
        """Returns where the batches from ``offset`` on lie, ending before ``upper``; the log ends
        at ``end``.
        """
        segments, bases = self.all, self.bases
        for number in range(self.index_of(offset), len(segments)):
            segment = segments[number]
            if segment.base_offset >= upper:
                return None
            first = segment.find_within(offset, max_bytes)
            if first is None:
                continue  # compaction left nothing at or after the offset in this one
            position, batch_size = first
            limit = segment.size
            segment_end = bases[number + 1] if number + 1 < len(bases) else end
            if upper < segment_end:
                beyond = segment.find(upper)
                limit = segment.size if beyond is None else beyond.position
            available = limit - position
            size = min(available, max_bytes)
            if size < batch_size <= available:
                if not min_one_batch:
                    return None
                size = batch_size
            if size <= 0:
                return None
            return FileSlice(segment.file, position, size)
        return None

    def moved(self, directory: str) -> None:
        """The directory has another name now, and the segments are used on: files stay open."""
        self.directory = directory
        for segment in self.all:
            segment.moved(directory)

    def renamed(self, directory: str) -> None:
        """The directory has another name now, and the segments are used no more."""
        self.close()
        self.directory = directory
        for segment in self.all:
            segment.directory = directory

    def close(self) -> None:
        for segment in self.all:
            segment.close()

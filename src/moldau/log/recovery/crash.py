"""Repairing a log after a crash: everything past the recovery point is read and checked.

Batches with a valid CRC and continuing offsets stay, the log is cut at the first that fails,
indexes and producer state are rebuilt on the way. What lies before the recovery point was synced
before and is not read again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from moldau.log.partition.producer_snapshots import replay
from moldau.log.partition.producer_state import apply_batch
from moldau.log.recovery.content import PartitionContent
from moldau.log.recovery.stats import RecoveryStats
from moldau.log.recovery.trusted_index import find_trusted_start
from moldau.log.segment.batches import iter_file_batches
from moldau.log.segment.segment import Segment
from moldau.records.batch import BatchHeader

_log = logging.getLogger(__name__)


class CrashRecovery:
    def __init__(
        self, content: PartitionContent, recovery_point: int | None, stats: RecoveryStats
    ) -> None:
        self._content = content
        self._segments = content.segments
        self._recovery_point = recovery_point or 0
        self._is_point_lost = recovery_point is None
        self._has_gaps = False
        self._stats = stats

    @property
    def kept_gaps_once(self) -> bool:
        """There are gaps that only a recovery point can explain, and it was lost."""
        return self._has_gaps and self._is_point_lost

    def run(self) -> int:
        """Returns where the log ends."""
        segments, content = self._segments, self._content
        first = self._first_unflushed()
        self._check_flushed_indexes(segments[:first])
        offset, position = self._prepare_scan(first)
        if content.epochs_lost and offset > segments[0].base_offset:
            content.read_epochs_from_log(offset)
        expected = offset
        for number in range(first, len(segments)):
            segment = segments[number]
            if number > first:
                position = 0
                if segment.base_offset != expected and not self._may_skip(
                    expected, segment.base_offset
                ):
                    self._cut_after(number - 1)
                    break
                expected = segment.base_offset
                segment.reset_indexes()
                segment.reset_transactions()
            expected, intact = self._scan(segment, position, expected)
            if not intact:
                self._cut_after(number)
                break
            if number + 1 < len(segments):
                self._finish_segment(segment)
        content.snapshots.truncate(expected)
        content.snapshots.remove_strays([segment.base_offset for segment in segments])
        content.producers.end_offset = expected
        return expected

    def _first_unflushed(self) -> int:
        """Returns the number of the segment that holds the last offset before the recovery point.

        If that is its very last one, it may have been closed without its indexes being synced.
        """
        first = 0
        while (
            first + 1 < len(self._segments)
            and self._segments[first + 1].base_offset < self._recovery_point
        ):
            first += 1
        return first

    def _check_flushed_indexes(self, segments: Sequence[Segment]) -> None:
        """Older segments are not read, unless an index of theirs is missing or damaged."""
        for segment in segments:
            # Opening an index checks it, and rebuilds it if need be.
            _ = segment.offset_index, segment.time_index
            self._content.check_transactions(segment)
            segment.close()

    def _prepare_scan(self, first: int) -> tuple[int, int]:
        """Bring indexes, epochs and producers to the state before the first batch to check; returns
        its offset and position.
        """
        content = self._content
        segment = self._segments[first]
        content.check_format(segment)
        trusted = find_trusted_start(
            content.disk, segment, self._recovery_point, content.config.segment_index_bytes
        )
        if trusted is None:
            offset, position = segment.base_offset, 0
            segment.reset_indexes()
        else:
            offset, position = trusted.offset, trusted.position
            segment.adopt_indexes(trusted.offset_index, trusted.time_index)
        segment.load_transactions(self._recovery_point)
        start = self._segments[0].base_offset
        usable = max(offset, min(self._recovery_point, segment.max_offset))
        content.snapshots.truncate(usable)
        known = content.snapshots.load_latest(content.producers, start, usable, content.now_ms)
        if known < offset:
            replay(content.producers, self._segments[: first + 1], known, offset)
            content.producers.end_offset = offset
        content.leader_epochs.truncate_from_end(offset)
        return offset, position

    def _scan(self, segment: Segment, position: int, expected: int) -> tuple[int, bool]:
        """Check the batches from ``position`` on; cut the segment at the first bad one.

        Returns the next offset and whether the segment was intact.
        """
        self._stats.segments_scanned += 1
        end = position
        for at, header, batch in iter_file_batches(segment.file, position, segment.size):
            if not self._continues(segment, header, expected):
                break
            end = at + header.size
            expected = header.next_offset
            self._take_over(segment, at, header, batch)
        self._stats.bytes_scanned += segment.size - position
        truncated = segment.size - end
        if truncated:
            _log.warning(
                "%s: cut %d bytes at the end of segment %d, the log ends at offset %d",
                self._content.topic_partition,
                truncated,
                segment.base_offset,
                expected,
            )
            self._stats.bytes_truncated += truncated
            segment.file.truncate(end)
            segment.file.sync()
            segment.size = end
        return expected, truncated == 0

    def _continues(self, segment: Segment, header: BatchHeader, expected: int) -> bool:
        if header.last_offset_delta < 0 or header.last_offset > segment.max_offset:
            return False
        if header.base_offset == expected:
            return True
        return self._may_skip(expected, header.base_offset)

    def _may_skip(self, expected: int, offset: int) -> bool:
        """Only compaction leaves gaps; elsewhere a gap is lost data, and the log ends before it.

        What was compacted lies before the recovery point; by now the topic may have another policy.
        If the recovery point is lost, compaction may have been anywhere: better keep what a gap
        separates than cut off what may be years of records.
        """
        if offset <= expected:
            return False
        self._has_gaps = True
        return self._content.config.compact or self._is_point_lost or offset <= self._recovery_point

    def _take_over(
        self, segment: Segment, position: int, header: BatchHeader, batch: memoryview
    ) -> None:
        epochs, producers = self._content.leader_epochs, self._content.producers
        last_offset = header.last_offset
        if position == 0:
            segment.rolling_timestamp = header.max_timestamp
        segment.note_batches(
            position,
            header.size,
            last_offset,
            header.max_timestamp,
            last_offset,
            header.base_offset,
        )
        if header.partition_leader_epoch > epochs.latest_epoch:
            epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.base_offset >= producers.end_offset:
            if header.has_producer_id:
                aborted = apply_batch(producers, header, batch)
                # Those that ended before the recovery point are in the index already.
                if aborted is not None and aborted.last_offset >= self._recovery_point:
                    segment.add_aborted(aborted)
            producers.end_offset = header.next_offset

    def _finish_segment(self, segment: Segment) -> None:
        segment.seal()
        self._content.unsynced += segment.index_paths()
        snapshot = self._content.snapshots.take(self._content.producers)
        if snapshot is not None:
            self._content.unsynced.append(snapshot)

    def _cut_after(self, number: int) -> None:
        """Remove the segments behind a cut, durably: they must not come back."""
        removed = self._segments[number + 1 :]
        for segment in reversed(removed):
            _log.warning(
                "%s: segment %d is behind the end of the log, removed",
                self._content.topic_partition,
                segment.base_offset,
            )
            segment.remove()
        self._stats.segments_removed += len(removed)
        del self._segments[number + 1 :]
        if removed:
            self._content.disk.sync_dir(self._content.directory)

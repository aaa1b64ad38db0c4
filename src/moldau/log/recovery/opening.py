"""Opening the log of a partition, and repairing it after a crash.

After a clean stop nothing is checked but the last batch's end. After a crash everything past the
recovery point is read: batches with a valid CRC and continuing offsets stay, the log is cut at the
first that fails, indexes and producer state are rebuilt on the way. What lies before the recovery
point was synced before and is not read again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from moldau.config import TopicConfig
from moldau.log.errors import (
    CorruptCheckpointError,
    CorruptIndexError,
    StorageError,
)
from moldau.log.files.names import (
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    parse_file_name,
)
from moldau.log.files.partition_metadata import read_partition_metadata
from moldau.log.partition.leader_epochs import LeaderEpochs
from moldau.log.partition.log import PartitionLog
from moldau.log.partition.producer_snapshots import ProducerSnapshots, replay
from moldau.log.partition.producer_state import ProducerState, apply_batch
from moldau.log.recovery.leftovers import clean_up
from moldau.log.recovery.stats import RecoveryStats
from moldau.log.recovery.trusted_index import find_trusted_start
from moldau.log.segment.batches import iter_file_batches, iter_file_headers
from moldau.log.segment.segment import Segment
from moldau.machine.disk import Disk
from moldau.model import NO_TOPIC_ID, TopicPartition
from moldau.records.batch import HEADER_SIZE, MAGIC, BatchHeader, read_header
from moldau.records.errors import CorruptRecordError

_log = logging.getLogger(__name__)

DEFAULT_EXPIRATION_MS = 86_400_000


def load_log(
    disk: Disk,
    directory: str,
    topic_partition: TopicPartition,
    config: TopicConfig,
    *,
    now_ms: int,
    clean: bool = False,
    recovery_point: int | None = None,
    log_start_offset: int = 0,
    producer_expiration_ms: int = DEFAULT_EXPIRATION_MS,
    stats: RecoveryStats | None = None,
) -> PartitionLog:
    """Open what is in ``directory``; an empty directory gives an empty log.

    ``clean`` says that the log was closed properly. Without a ``recovery_point`` nobody knows how
    much was synced, nor whether the log was ever compacted. Raises OSError if the disk fails.
    """
    loader = _Loader(
        disk,
        directory,
        topic_partition,
        config,
        now_ms=now_ms,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        producer_expiration_ms=producer_expiration_ms,
        stats=stats or RecoveryStats(),
    )
    return loader.load(clean)


class _Loader:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        config: TopicConfig,
        *,
        now_ms: int,
        recovery_point: int | None,
        log_start_offset: int,
        producer_expiration_ms: int,
        stats: RecoveryStats,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._topic_partition = topic_partition
        self._config = config
        self._now_ms = now_ms
        self._recovery_point = recovery_point or 0
        self._is_point_lost = recovery_point is None
        self._has_gaps = False
        self._start = log_start_offset
        self._stats = stats
        names = disk.listdir(directory)
        self._names = set(clean_up(disk, directory, names))
        self._segments = self._find_segments()
        self._state = ProducerState(log_start_offset)
        self._snapshots = ProducerSnapshots(
            disk, directory, self._offsets_of(SNAPSHOT_SUFFIX), producer_expiration_ms
        )
        self._unsynced: list[str] = []
        self._epochs_lost = False
        self._epochs = self._read_epochs()

    def load(self, clean: bool) -> PartitionLog:
        end = self._open_clean() if clean else None
        crashed = end is None
        if end is None:
            end = self._recover()
            recovery_point = min(self._recovery_point, end)
        else:
            recovery_point = end
        if end < self._start:
            self._drop_everything(end)
            end = recovery_point = self._start
        self._start = max(self._start, self._segments[0].base_offset)
        self._epochs.truncate_from_end(end)
        self._epochs.truncate_from_start(self._start)
        log = PartitionLog(
            self._disk,
            self._topic_partition,
            self._directory,
            self._config,
            self._segments,
            leader_epochs=self._epochs,
            producers=self._state,
            snapshots=self._snapshots,
            log_start_offset=self._start,
            log_end_offset=end,
            recovery_point=recovery_point,
            now_ms=self._now_ms,
            topic_id=self._read_topic_id(),
            unsynced=self._unsynced,
        )
        if crashed:
            # The names of what the last process made may not be durable yet.
            log.durability.created(self._directory.rpartition("/")[0])
        if self._has_gaps and self._is_point_lost:
            # Kept this once: after another crash the recovery point has to explain them.
            log.durability.flush(self._now_ms)
        return log

    # What is there -----------------------------------------------------------------------------

    def _offsets_of(self, suffix: str) -> list[int]:
        return [
            int(name[:20])
            for name in self._names
            if name.endswith(suffix) and len(name) == 20 + len(suffix)
        ]

    def _find_segments(self) -> list[Segment]:
        segments = []
        for base_offset in sorted(self._offsets_of(LOG_SUFFIX)):
            size = self._disk.size(f"{self._directory}/{file_name(base_offset, LOG_SUFFIX)}")
            segments.append(self._segment(base_offset, size))
        for segment in segments[:-1]:
            segment.sealed = True
        self._remove_orphans({segment.base_offset for segment in segments})
        if not segments:
            segment = self._segment(self._start, 0)
            segment.create()
            segments.append(segment)
        return segments

    def _segment(self, base_offset: int, size: int) -> Segment:
        return Segment(
            self._disk,
            self._directory,
            base_offset,
            index_interval=self._config.index_interval_bytes,
            index_bytes=self._config.segment_index_bytes,
            created_ms=self._now_ms,
            size=size,
        )

    def _remove_orphans(self, bases: set[int]) -> None:
        for name in list(self._names):
            parsed = parse_file_name(name)
            if (
                parsed is not None
                and parsed[1] in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
                and parsed[0] not in bases
            ):
                _log.warning("%s/%s belongs to no segment, removed", self._directory, name)
                self._disk.remove(f"{self._directory}/{name}")
                self._names.discard(name)

    def _read_epochs(self) -> LeaderEpochs:
        path = f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}"
        if LEADER_EPOCH_CHECKPOINT in self._names:
            try:
                data = self._disk.read(path)
                if data:  # a crash or a full disk may have left nothing of it
                    return LeaderEpochs.decode(data, path)
            except CorruptCheckpointError as error:
                _log.warning("leader epochs are read from the log again: %s", error)
        self._epochs_lost = True
        return LeaderEpochs()

    def _read_topic_id(self) -> UUID:
        if PARTITION_METADATA not in self._names:
            return NO_TOPIC_ID
        try:
            return read_partition_metadata(self._disk, self._directory)
        except CorruptCheckpointError as error:
            _log.warning("topic id unknown: %s", error)
            return NO_TOPIC_ID

    # Clean ---------------------------------------------------------------------------------------

    def _open_clean(self) -> int | None:
        """The end of a log that was closed properly; None if that cannot be true."""
        for segment in self._segments:
            if segment.size and file_name(segment.base_offset, INDEX_SUFFIX) not in self._names:
                self._check_format(segment)
                segment.rebuild_indexes()
            if file_name(segment.base_offset, TXN_INDEX_SUFFIX) in self._names:
                self._check_transactions(segment)
        try:
            end = self._segments[-1].next_offset()
        except CorruptRecordError as error:
            _log.warning("%s was not closed cleanly: %s", self._topic_partition, error)
            return None
        if self._epochs_lost and self._segments[0].size:
            self._read_epochs_from_log(end)
        bases = [segment.base_offset for segment in self._segments]
        self._snapshots.remove_strays(bases)
        # From the first batch there is, even if it lies before the start offset: the more is known
        # of a producer, the better.
        self._snapshots.rebuild(self._state, self._segments, bases[0], end, self._now_ms)
        for segment in self._segments:
            segment.trust_indexes()
            segment.close()  # opened again when it is used; most of ten thousand are not, for long
        return end

    # After a crash -------------------------------------------------------------------------------

    def _recover(self) -> int:
        first = self._first_unflushed()
        self._check_flushed_indexes(self._segments[:first])
        offset, position = self._prepare_scan(first)
        if self._epochs_lost and offset > self._segments[0].base_offset:
            self._read_epochs_from_log(offset)
        expected = offset
        for number in range(first, len(self._segments)):
            segment = self._segments[number]
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
            if number + 1 < len(self._segments):
                self._finish_segment(segment)
        self._segments[-1].sealed = False
        self._snapshots.truncate(expected)
        self._snapshots.remove_strays([segment.base_offset for segment in self._segments])
        self._state.end_offset = expected
        return expected

    def _first_unflushed(self) -> int:
        """The segment that holds the last offset before the recovery point.

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
            self._check_transactions(segment)
            segment.close()

    def _check_transactions(self, segment: Segment) -> None:
        try:
            _ = segment.txn_index
        except CorruptIndexError as error:
            _log.warning("%s: %s", self._topic_partition, error)
            self._rebuild_transactions(segment)

    def _rebuild_transactions(self, segment: Segment) -> None:
        """Write the index of aborted transactions anew, from the markers in the segment."""
        state = ProducerState()
        start = self._segments[0].base_offset
        self._snapshots.load_latest(state, start, segment.base_offset, self._now_ms)
        segment.reset_transactions()
        replay(state, self._segments, state.end_offset, segment.base_offset)
        for position, header in iter_file_headers(segment.file, 0, segment.size):
            if header.has_producer_id:
                batch = segment.file.pread(header.size, position) if header.is_control else b""
                aborted = apply_batch(state, header, memoryview(batch))
                if aborted is not None:
                    segment.add_aborted(aborted)
        self._unsynced.append(segment.path(TXN_INDEX_SUFFIX))

    def _prepare_scan(self, first: int) -> tuple[int, int]:
        """Bring indexes, epochs and producers to the state before the first batch to check."""
        segment = self._segments[first]
        self._check_format(segment)
        trusted = find_trusted_start(
            self._disk, segment, self._recovery_point, self._config.segment_index_bytes
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
        self._snapshots.truncate(usable)
        known = self._snapshots.load_latest(self._state, start, usable, self._now_ms)
        if known < offset:
            replay(self._state, self._segments[: first + 1], known, offset)
            self._state.end_offset = offset
        self._epochs.truncate_from_end(offset)
        return offset, position

    def _scan(self, segment: Segment, position: int, expected: int) -> tuple[int, bool]:
        """Check the batches from ``position`` on; cut the segment at the first bad one.

        Answers the next offset and whether the segment was intact.
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
                self._topic_partition,
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

    def _may_skip(self, expected: int, found: int) -> bool:
        """Only compaction leaves gaps; elsewhere a gap is lost data, and the log ends before it.

        What was compacted lies before the recovery point; by now the topic may have another policy.
        If the recovery point is lost, compaction may have been anywhere: better keep what a gap
        separates than cut off what may be years of records.
        """
        if found <= expected:
            return False
        self._has_gaps = True
        return self._config.compact or self._is_point_lost or found <= self._recovery_point

    def _take_over(
        self, segment: Segment, position: int, header: BatchHeader, batch: memoryview
    ) -> None:
        last_offset = header.last_offset
        if position == 0:
            segment.rolling_timestamp = header.max_timestamp
        segment.note_batches(position, header.size, last_offset, header.max_timestamp, last_offset)
        if header.partition_leader_epoch > self._epochs.latest_epoch:
            self._epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.base_offset >= self._state.end_offset:
            if header.has_producer_id:
                aborted = apply_batch(self._state, header, batch)
                # Those that ended before the recovery point are in the index already.
                if aborted is not None and aborted.last_offset >= self._recovery_point:
                    segment.add_aborted(aborted)
            self._state.end_offset = header.next_offset

    def _finish_segment(self, segment: Segment) -> None:
        segment.seal()
        self._unsynced += segment.index_paths()
        snapshot = self._snapshots.take(self._state)
        if snapshot is not None:
            self._unsynced.append(snapshot)

    def _cut_after(self, number: int) -> None:
        """Remove the segments behind a cut, durably: they must not come back."""
        removed = self._segments[number + 1 :]
        for segment in reversed(removed):
            _log.warning(
                "%s: segment %d is behind the end of the log, removed",
                self._topic_partition,
                segment.base_offset,
            )
            segment.remove()
        self._stats.segments_removed += len(removed)
        del self._segments[number + 1 :]
        self._segments[number].sealed = False
        if removed:
            self._disk.sync_dir(self._directory)

    def _drop_everything(self, end: int) -> None:
        """The log ends before its start offset: its files must have been lost."""
        _log.warning(
            "%s: the log ends at %d, before its start %d; it begins again there",
            self._topic_partition,
            end,
            self._start,
        )
        for segment in self._segments:
            segment.remove()
        segment = self._segment(self._start, 0)
        segment.create()
        self._segments = [segment]
        self._epochs.clear()
        self._snapshots.truncate(-1)
        self._state.clear(self._start)

    def _read_epochs_from_log(self, end: int) -> None:
        self._epochs.clear()
        for segment in self._segments:
            for _, header in iter_file_headers(segment.file, 0, segment.size):
                if header.base_offset >= end:
                    return
                if header.partition_leader_epoch > self._epochs.latest_epoch:
                    self._epochs.assign(header.partition_leader_epoch, header.base_offset)

    def _check_format(self, segment: Segment) -> None:
        """Old message formats are refused, rather than taken for damage and cut off."""
        if segment.size >= HEADER_SIZE:
            header = read_header(segment.file.pread(HEADER_SIZE, 0))
            if header.magic in (0, 1) and header.batch_length > 0 and header.crc:
                raise StorageError(
                    f"{segment.path(LOG_SUFFIX)} is in message format v{header.magic}, "
                    f"only v{MAGIC} can be read"
                )

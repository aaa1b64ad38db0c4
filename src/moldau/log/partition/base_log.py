"""What every part of a partition's log works on: its segments, settings and producers; rolling.

The class grows in four steps, one module each: ``BaseLog`` (this one), ``ReadableLog``,
``AppendableLog`` and ``PartitionLog``, the one to use.
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID
from zlib import crc32

from moldau.config import TopicConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.log.errors import StorageError, is_full, is_passing
from moldau.log.partition.leader_epochs import LeaderEpochs
from moldau.log.partition.producer_snapshots import ProducerSnapshots
from moldau.log.partition.producer_state import ProducerState
from moldau.log.partition.validation import BatchRules
from moldau.log.segment.segment import Segment
from moldau.machine.disk import Disk, File
from moldau.model import NO_TOPIC_ID, TopicPartition

if TYPE_CHECKING:
    from moldau.log.partition.log import PartitionLog

_log = logging.getLogger(__name__)

_TAIL_BATCHES: Final = 128
_CHECK_AT_NEXT_APPEND: Final = -(2**63)


class BaseLog:
    """Segments, oldest first; only the last one, the active one, is written to."""

    __slots__ = (
        "_active",
        "_bases",
        "_config",
        "_directories_to_sync",
        "_disk",
        "_failure",
        "_flush_messages",
        "_generation",
        "_replacing",
        "_roll_after",
        "_rules",
        "_segment_bytes",
        "_segments",
        "_snapshots",
        "_tail_offsets",
        "_tail_positions",
        "_truncated",
        "_unsynced",
        "directory",
        "last_flush_ms",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "on_disk_error",
        "on_failure",
        "on_roll",
        "on_segments_removed",
        "producers",
        "recovery_point",
        "replaced_by",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        disk: Disk,
        topic_partition: TopicPartition,
        directory: str,
        config: TopicConfig,
        segments: Sequence[Segment],
        *,
        leader_epochs: LeaderEpochs,
        producers: ProducerState,
        snapshots: ProducerSnapshots,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        now_ms: int,
        topic_id: UUID = NO_TOPIC_ID,
        unsynced: Sequence[str] = (),
    ) -> None:
        self._disk = disk
        self.topic_partition = topic_partition
        self.directory = directory
        self.topic_id = topic_id
        self.leader_epochs = leader_epochs
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        self.last_flush_ms = now_ms
        self.on_roll: Callable[[BaseLog], None] | None = None
        """Called after a roll: what lies before it should be flushed soon."""
        self.on_failure: Callable[[BaseLog], None] | None = None
        """Called once, when the log has gone offline."""
        self.on_disk_error: Callable[[BaseLog, str, OSError], None] | None = None
        """Called whenever the disk refuses: it failed, or it is full and the log goes on."""
        self.replaced_by: PartitionLog | None = None
        """The log in another directory that has taken this one's place."""
        self.on_segments_removed: Callable[[BaseLog, list[str]], None] | None = None
        """Called with the renamed files of removed segments, which may be deleted later."""
        self._snapshots = snapshots
        self._failure: str | None = None
        self._generation = 0
        self._replacing = False
        self._unsynced = list(unsynced)
        self._truncated: File | None = None
        self._directories_to_sync = [directory] if unsynced else []
        self._set_segments(segments)
        self._apply_config(config)

    # Settings and state ------------------------------------------------------------------------

    @property
    def config(self) -> TopicConfig:
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        if config is not self._config:
            self._apply_config(config)

    def _apply_config(self, config: TopicConfig) -> None:
        self._config = config
        self._rules = BatchRules(config)
        self._segment_bytes = config.segment_bytes
        self._flush_messages = config.flush_messages
        self._active.index_interval = config.index_interval_bytes
        self._roll_after = _CHECK_AT_NEXT_APPEND

    def _set_segments(self, segments: Sequence[Segment]) -> None:
        """Replace the segment list; readers that hold the old one are not disturbed."""
        self._segments = tuple(segments)
        self._bases = [segment.base_offset for segment in segments]
        self._active = segments[-1]
        self._roll_after = _CHECK_AT_NEXT_APPEND
        self._forget_tail()

    def _forget_tail(self) -> None:
        self._tail_offsets = array("q")
        self._tail_positions = array("q")

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self._segments

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def failure(self) -> str | None:
        """Why the log is offline, if it is."""
        return self._failure

    def fail(self, reason: str) -> None:
        """Take the log offline: from now on every call answers KAFKA_STORAGE_ERROR."""
        if self._failure is None:
            self._failure = reason
            _log.error("%s is offline: %s", self.topic_partition, reason)
            if self.on_failure is not None:
                self.on_failure(self)

    def _check_online(self) -> None:
        if self._failure is not None:
            raise StorageError(f"{self.topic_partition} is offline: {self._failure}")

    def _storage_error(self, doing: str, error: Exception) -> StorageError:
        """The log goes offline, unless the error passes or the disk is only full (and the caller
        has changed nothing).
        """
        if is_passing(error):
            _log.warning("%s: %s: %s", self.topic_partition, doing, error)
        elif is_full(error):
            self._tell_disk_error(doing, error)
        else:
            return self._failed(doing, error)
        return StorageError(f"{self.topic_partition}: {doing}: {error}")

    def _failed(self, doing: str, error: Exception) -> StorageError:
        self.fail(f"{doing}: {error}")
        self._tell_disk_error(doing, error)
        return StorageError(f"{self.topic_partition} is offline: {doing}: {error}")

    def _tell_disk_error(self, doing: str, error: Exception) -> None:
        if isinstance(error, OSError) and self.on_disk_error is not None:
            self.on_disk_error(self, doing, error)

    def _remember(self, offset: int, position: int) -> None:
        """Keep the places of the last batches, so that tail reads need no index."""
        offsets = self._tail_offsets
        offsets.append(offset)
        self._tail_positions.append(position)
        if len(offsets) > _TAIL_BATCHES:
            del offsets[: _TAIL_BATCHES // 2]
            del self._tail_positions[: _TAIL_BATCHES // 2]

    # Rolling -----------------------------------------------------------------------------------

    def _maybe_roll(
        self, size: int, first: int, last: int, max_timestamp: int, now_ms: int
    ) -> Segment:
        """The segment for the next append: the active one, or a new one if that is full or old."""
        if size > self._segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes do not fit into a segment of {self._segment_bytes} bytes",
            )
        segment = self._active
        try:
            if (
                segment.size > self._segment_bytes - size
                or last > segment.max_offset
                or segment.full
                or self._is_old(segment, max_timestamp, now_ms)
            ):
                self._roll(first, now_ms)
        except OSError as error:
            raise self._storage_error("roll", error) from error
        return self._active

    def _is_old(self, segment: Segment, max_timestamp: int, now_ms: int) -> bool:
        """Whether ``segment.ms`` has passed since the first append, by the records' own clock."""
        if segment.size == 0:
            return False
        span = self._config.segment_ms - self._jitter(segment)
        started = segment.load_rolling_timestamp()
        if started >= 0:
            self._roll_after = started + span
            return max_timestamp > self._roll_after
        return now_ms - segment.created_ms > span

    def _jitter(self, segment: Segment) -> int:
        """Spread the rolls of partitions that started together; the same after a restart."""
        limit = min(self._config.segment_jitter_ms, self._config.segment_ms)
        if limit <= 0:
            return 0
        return crc32(f"{self.topic_partition}/{segment.base_offset}".encode()) % limit

    def roll(self, now_ms: int, *, for_deletion: bool = False) -> None:
        """Close the active segment and start a new one at the log end.

        If the old one is to be deleted at once (``for_deletion``), nothing more is written to it:
        a full disk must not keep it from going.
        """
        self._check_online()
        try:
            self._roll(self.log_end_offset, now_ms, for_deletion=for_deletion)
        except OSError as error:
            raise self._storage_error("roll", error) from error

    def _roll(self, base_offset: int, now_ms: int, *, for_deletion: bool = False) -> None:
        """Any step may fail for lack of room: then the active segment is still the active one."""
        active = self._active
        kept = self._segments
        if active.size and for_deletion:
            try:
                self._take_snapshot()
            except OSError as error:
                if not is_full(error):
                    raise
        elif active.size:
            active.seal()
            self._unsynced += active.index_paths()
            self._take_snapshot()
        elif active.base_offset == base_offset:
            return
        segment = self._create_segment(base_offset, now_ms)
        if not active.size:
            active.remove()
            kept = kept[:-1]
        self._set_segments((*kept, segment))
        self._needs_dir_sync()
        if self.on_roll is not None:
            self.on_roll(self)

    def _create_segment(self, base_offset: int, now_ms: int) -> Segment:
        segment = self._new_segment(base_offset, now_ms)
        try:
            segment.create(self._segment_bytes if self._config.preallocate else 0)
        except OSError:
            # A file without a segment would be taken for the end of the log at the next start.
            segment.remove()
            raise
        return segment

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        return Segment(
            self._disk,
            self.directory,
            base_offset,
            index_interval=self._config.index_interval_bytes,
            index_bytes=self._config.segment_index_bytes,
            created_ms=now_ms,
        )

    def _take_snapshot(self) -> None:
        path = self._snapshots.take(self.producers)
        if path is not None:
            self._unsynced.append(path)

    def _needs_dir_sync(self) -> None:
        if self.directory not in self._directories_to_sync:
            self._directories_to_sync.append(self.directory)

    def created(self, parent: str) -> None:
        """Note that the directory may be new: the first flush makes its name durable too."""
        self._directories_to_sync = [self.directory, parent]

    def _number_of(self, offset: int) -> int:
        """Which segment holds ``offset``."""
        return max(bisect_right(self._bases, offset) - 1, 0)

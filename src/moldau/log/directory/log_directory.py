"""One of the broker's log directories: its lock, its checkpoints, its partitions on disk.

Every method here blocks and is made to run in a worker thread; the manager holds the live logs.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from uuid import UUID

from moldau.config.values.topic import TopicConfig
from moldau.errors import KafkaError
from moldau.log.errors import CorruptCheckpointError
from moldau.log.files.checkpoints import read_offsets, write_offsets
from moldau.log.files.names import (
    CLEAN_SHUTDOWN_MARKER,
    CLUSTER_METADATA_TOPIC,
    DELETE_DIR_SUFFIX,
    FUTURE_DIR_SUFFIX,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    parse_dir_name,
)
from moldau.log.files.partition_metadata import read_partition_metadata
from moldau.log.files.replaced_logs import read_replaced
from moldau.log.partition.log import PartitionLog
from moldau.log.recovery.opening import load_log
from moldau.log.recovery.stats import RecoveryStats
from moldau.machine.directories import make_directory
from moldau.machine.disk import DirectoryLock, Disk, DiskUsage
from moldau.model import LEGAL_TOPIC_NAME, MAX_TOPIC_NAME_LENGTH, TopicPartition

_log = logging.getLogger(__name__)

PARTITIONS_PER_JOB: Final = 256
"""So many logs are opened or made by one call in a thread."""
CHECKPOINTS: Final = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
)
_MAX_PARTITION: Final = 2**31 - 1
_TELL_FULL_EVERY_MS: Final = 60_000


class DirectoryContent(NamedTuple):
    """What a directory holds before its partitions are opened."""

    clean: bool
    partitions: list[str]
    futures: list[str]
    """Copies under way that a move between directories had begun."""
    to_delete: list[str]
    deleted: set[tuple[UUID, int]]
    """Topic ids and partitions of those."""
    recovery_points: dict[TopicPartition, int | None] | None
    """None if they were never written down, or are lost."""
    log_start_offsets: dict[TopicPartition, int]
    high_watermarks: dict[TopicPartition, int]
    replaced: dict[TopicPartition, str]
    """Partitions whose log here replaced one in another directory, if a crash left that there."""
    last_written_ms: int
    """When the checkpoints were last written, by the clock of then; 0 if nobody knows."""

    def recovery_point(self, topic_partition: TopicPartition) -> int | None:
        """Returns how far a log is durable, None if nobody knows.

        One that is not written down was made after they last were.
        """
        return (
            None if self.recovery_points is None else self.recovery_points.get(topic_partition, 0)
        )


class LoadResult(NamedTuple):
    logs: list[PartitionLog]
    failed: list[tuple[TopicPartition, str]]
    stats: RecoveryStats


class LogDirectory:
    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._lock: DirectoryLock | None = None
        self.path = path
        self.offline: str | None = None
        """Why the directory is not used any more, if it is not."""
        self.cordoned = False
        """Whether it gets no new partitions (``cordoned.log.dirs``)."""
        self.unopened: dict[TopicPartition, int] = {}
        """Recovery points of logs that could not be opened: they stay true for the next start."""
        self._told_full_ms = -_TELL_FULL_EVERY_MS

    @property
    def is_online(self) -> bool:
        return self.offline is None

    def usage(self) -> DiskUsage | None:
        """Returns size and free space of the disk under it, None if it cannot be asked."""
        if self.is_online:
            with suppress(OSError):
                return self._disk.usage(self.path)
        return None

    def open(self) -> DirectoryContent:
        """Lock the directory and look what is in it. The clean-shutdown marker is used up.

        Raises BlockingIOError if another broker has it, other OSErrors if it cannot be used.
        """
        make_directory(self._disk, self.path)
        self._lock = self._disk.lock(f"{self.path}/{LOCK_FILE}")
        if self._lock is None:
            raise BlockingIOError(
                f"{self.path} is locked: another broker runs in the same directory"
            )
        names = self._disk.listdir(self.path)
        clean = CLEAN_SHUTDOWN_MARKER in names
        if clean:
            # Gone before anything changes, so that a crash from here on is seen as one.
            self._disk.remove(f"{self.path}/{CLEAN_SHUTDOWN_MARKER}")
            self._disk.sync_dir(self.path)
        partitions, futures, to_delete = self._sort(names)
        replaced = self._read_replaced()
        return DirectoryContent(
            clean,
            partitions,
            futures,
            to_delete,
            self._ids(to_delete),
            self._read_recovery_points(replaced) if RECOVERY_POINT_CHECKPOINT in names else None,
            self._read(LOG_START_OFFSET_CHECKPOINT) or {},
            self._read(HIGH_WATERMARK_CHECKPOINT) or {},
            replaced,
            max(self._modified_ms(name) for name in CHECKPOINTS),
        )

    def _modified_ms(self, name: str) -> int:
        try:
            return self._disk.modified_ms(f"{self.path}/{name}")
        except FileNotFoundError:
            return 0

    def _sort(self, names: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
        partitions, futures, to_delete = [], [], []
        for name in sorted(names):
            parsed = parse_dir_name(name)
            if parsed is None or not self._disk.is_dir(f"{self.path}/{name}"):
                continue
            topic_partition, mark = parsed
            if mark == DELETE_DIR_SUFFIX:
                to_delete.append(name)
            elif mark == FUTURE_DIR_SUFFIX:
                futures.append(name)
            elif mark:
                _log.warning("%s/%s is left alone", self.path, name)
            elif not _may_be_partition(topic_partition):
                _log.warning("%s/%r is left alone: that is no partition", self.path, name)
            elif topic_partition.topic != CLUSTER_METADATA_TOPIC:
                partitions.append(name)
        return partitions, futures, to_delete

    def _ids(self, names: Iterable[str]) -> set[tuple[UUID, int]]:
        found: set[tuple[UUID, int]] = set()
        for name in names:
            parsed = parse_dir_name(name)
            assert parsed is not None
            with suppress(OSError, CorruptCheckpointError):
                topic_id = read_partition_metadata(self._disk, f"{self.path}/{name}")
                found.add((topic_id, parsed[0].partition))
        return found

    def _read(self, name: str) -> dict[TopicPartition, int] | None:
        try:
            return read_offsets(self._disk, f"{self.path}/{name}")
        except CorruptCheckpointError as error:
            _log.warning("%s is ignored: %s", name, error)
            return None

    def _read_recovery_points(
        self, replaced: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int | None] | None:
        written = self._read(RECOVERY_POINT_CHECKPOINT)
        # What was moved here just before the crash is old, and its recovery point not here yet.
        return None if written is None else {**dict.fromkeys(replaced), **written}

    def _read_replaced(self) -> dict[TopicPartition, str]:
        try:
            return read_replaced(self._disk, self.path)
        except CorruptCheckpointError as error:
            _log.warning("ignored: %s", error)
            return {}

    def load(
        self,
        names: Iterable[str],
        content: DirectoryContent,
        topic_config: Callable[[str], TopicConfig],
        now_ms: int,
        producer_expiration_ms: int,
    ) -> LoadResult:
        """Open some of the partitions; of those that cannot be opened it returns the reason."""
        result = LoadResult([], [], RecoveryStats())
        for name in names:
            parsed = parse_dir_name(name)
            assert parsed is not None
            topic_partition = parsed[0]
            try:
                log = load_log(
                    self._disk,
                    f"{self.path}/{name}",
                    topic_partition,
                    topic_config(topic_partition.topic),
                    now_ms=now_ms,
                    clean=content.clean,
                    recovery_point=content.recovery_point(topic_partition),
                    log_start_offset=content.log_start_offsets.get(topic_partition, 0),
                    producer_expiration_ms=producer_expiration_ms,
                    stats=result.stats,
                )
            except (OSError, KafkaError) as error:
                _log.exception("%s cannot be opened", topic_partition)
                result.failed.append((topic_partition, str(error)))
                recovery_point = content.recovery_point(topic_partition)
                if recovery_point is not None:
                    self.unopened[topic_partition] = recovery_point
            else:
                result.logs.append(log)
        return result

    def tell_full(self, what: str, now_ms: int) -> None:
        """Say that the disk is full: once a minute, not once per refused append."""
        if not 0 <= now_ms - self._told_full_ms < _TELL_FULL_EVERY_MS:
            self._told_full_ms = now_ms
            _log.error("log directory %s is full, appends are refused: %s", self.path, what)

    def write_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        write_offsets(self._disk, f"{self.path}/{name}", offsets)

    def write_clean_marker(self, broker_epoch: int) -> None:
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self._disk.write_atomic(f"{self.path}/{CLEAN_SHUTDOWN_MARKER}", content.encode())

    def remove_tree(self, name: str) -> None:
        """Delete a directory that was marked for it; an error leaves it for the next start."""
        try:
            self._disk.remove_tree(f"{self.path}/{name}")
        except FileNotFoundError:
            return
        except OSError as error:
            _log.warning("%s/%s could not be removed: %s", self.path, name, error)

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _may_be_partition(topic_partition: TopicPartition) -> bool:
    """Whether there can be such a partition: anything may lie in a log directory."""
    topic, number = topic_partition
    return (
        number <= _MAX_PARTITION
        and len(topic) <= MAX_TOPIC_NAME_LENGTH
        and LEGAL_TOPIC_NAME.fullmatch(topic) is not None
    )

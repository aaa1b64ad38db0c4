"""Making the logs of new partitions, in threads: directories and files for thousands at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

from moldau.config.values.topic import TopicConfig
from moldau.log.directory.log_directory import LogDirectory
from moldau.log.errors import StorageError
from moldau.log.files.names import PARTITION_METADATA, partition_dir_name
from moldau.log.files.partition_metadata import encode_partition_metadata
from moldau.log.partition.log import PartitionLog
from moldau.log.recovery.opening import load_log
from moldau.machine.clock import Clock
from moldau.machine.disk import Disk
from moldau.model import NO_TOPIC_ID, TopicPartition


class WantedLog(NamedTuple):
    directory: LogDirectory
    topic_partition: TopicPartition
    topic_id: UUID
    config: TopicConfig
    tried: frozenset[str] = frozenset()
    """Directories in which it could not be made."""


class CannotCreateError(StorageError):
    """A log could not be made; ``cause`` says what the disk said."""

    def __init__(self, path: str, cause: OSError) -> None:
        super().__init__(f"cannot create {path}: {cause}")
        self.cause = cause


class LogBuilder:
    """Touches nothing but the disk, so all of it may run in a thread."""

    def __init__(self, disk: Disk, clock: Clock, producer_expiration_ms: int) -> None:
        self._disk = disk
        self._clock = clock
        self.producer_expiration_ms = producer_expiration_ms

    def build_many(self, wanted: Sequence[WantedLog]) -> list[PartitionLog | StorageError]:
        results: list[PartitionLog | StorageError] = []
        for log_wanted in wanted:
            try:
                results.append(self.build(log_wanted))
            except StorageError as error:
                results.append(error)
        return results

    def build(self, wanted: WantedLog, name: str | None = None) -> PartitionLog:
        """Make directory (by default of the partition's own name) and files."""
        directory, topic_partition, topic_id, config, _ = wanted
        path = f"{directory.path}/{name or partition_dir_name(topic_partition)}"
        try:
            self._disk.makedirs(path)
            log = load_log(
                self._disk,
                path,
                topic_partition,
                config,
                now_ms=self._clock.now_ms(),
                clean=True,
                producer_expiration_ms=self.producer_expiration_ms,
            )
            if topic_id != NO_TOPIC_ID:
                self.write_topic_id(log, topic_id)
        except OSError as error:
            with suppress(OSError):
                self._disk.remove_tree(path)  # the partition may be made elsewhere
            raise CannotCreateError(path, error) from error
        log.durability.created(directory.path)
        return log

    def write_topic_id(self, log: PartitionLog, topic_id: UUID) -> None:
        # Neither synced nor atomic: creating ten thousand partitions must not mean as many syncs.
        # After a power cut a lost or torn file reads as "unknown" and is written again from here.
        path = f"{log.directory}/{PARTITION_METADATA}"
        self._disk.write(path, encode_partition_metadata(topic_id))
        log.topic_id = topic_id

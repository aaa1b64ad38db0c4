"""The logs that are served, by partition, and those that should be but cannot."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from moldau.log.directory.log_directory import LogDirectory
from moldau.log.directory.placement import Placement
from moldau.log.errors import StorageError
from moldau.log.files.names import DELETE_DIR_SUFFIX, marked_dir_name
from moldau.log.partition.events import LogObserver
from moldau.log.partition.log import PartitionLog
from moldau.machine.disk import Disk
from moldau.model import TopicPartition


class ServedLogs:
    def __init__(self, disk: Disk, placement: Placement, new_uuid: Callable[[], UUID]) -> None:
        self._disk = disk
        self._placement = placement
        self._new_uuid = new_uuid
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.offline: dict[TopicPartition, str] = {}
        """Partitions that are on disk here but cannot be used, and why."""
        self.observer: LogObserver | None = None
        """Hears of what happens to the logs while they are served."""
        self.on_forgotten: list[Callable[[PartitionLog, LogDirectory], None]] = []
        """Called with each log that goes, and where it was."""

    def is_served(self, log: PartitionLog) -> bool:
        return self.logs.get(log.topic_partition) is log

    def by_directory(self) -> dict[str, list[PartitionLog]]:
        return self._placement.by_directory(self.logs.values())

    def check_online(self, topic_partition: TopicPartition) -> None:
        """Raises KAFKA_STORAGE_ERROR if the partition is here and cannot be used."""
        if topic_partition in self.offline:
            raise StorageError(f"{topic_partition} is offline: {self.offline[topic_partition]}")

    def adopt(self, log: PartitionLog, directory: LogDirectory) -> None:
        """Serve the log from now on."""
        topic_partition = log.topic_partition
        other = self.logs.get(topic_partition)
        if other is not None:
            # A crash may have left an empty one where it could not be made.
            if other.log_end_offset == 0:
                self.set_aside(other, DELETE_DIR_SUFFIX)
            elif log.log_end_offset:
                raise StorageError(
                    f"{topic_partition} is both in {other.directory} and in {log.directory}; "
                    f"remove the one that is out of date"
                )
            else:
                self._rename_away(log, directory, DELETE_DIR_SUFFIX)
                return
        log.observe(self.observer)
        self.logs[topic_partition] = log
        self._placement.add(topic_partition, directory)

    def forget(self, log: PartitionLog) -> LogDirectory:
        """Serve the log no more; returns where it is."""
        del self.logs[log.topic_partition]
        log.observe(None)
        directory = self._placement.remove(log.topic_partition)
        for callback in self.on_forgotten:
            callback(log, directory)
        return directory

    def set_aside(self, log: PartitionLog, suffix: str) -> str:
        """Rename the log's directory and forget it; readers keep the files they have open.

        StorageError if it cannot be renamed: it is served as before then.
        """
        name = self._rename_away(log, self._placement.home(log.topic_partition), suffix)
        self.forget(log)
        return name

    def _rename_away(self, log: PartitionLog, directory: LogDirectory, suffix: str) -> str:
        name = marked_dir_name(log.topic_partition, self._new_uuid(), suffix)
        try:
            self._disk.rename(log.directory, f"{directory.path}/{name}")
        except OSError as error:
            raise StorageError(f"cannot rename {log.directory}: {error}") from error
        log.renamed(f"{directory.path}/{name}")
        log.retire()
        return name

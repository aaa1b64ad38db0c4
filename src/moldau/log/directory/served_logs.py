"""The logs that are served, by partition, and those that should be but cannot."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from uuid import UUID

from moldau.log.directory.log_directory import LogDirectory
from moldau.log.directory.placement import Placement
from moldau.log.errors import StorageError
from moldau.log.files.names import DELETE_DIR_SUFFIX, marked_dir_name
from moldau.log.partition.events import LogObserver
from moldau.log.partition.log import PartitionLog
from moldau.machine.disk import Disk
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)


class ServedLogs:
    def __init__(self, disk: Disk, placement: Placement, new_uuid: Callable[[], UUID]) -> None:
        self._disk = disk
        self._placement = placement
        self._new_uuid = new_uuid
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.offline: dict[TopicPartition, str] = {}
        """Partitions that are on disk here but cannot be used, and why."""
        self.topic_ids: Mapping[str, UUID | None] = {}
        """What the store says, at the start: it decides where a partition is found twice."""
        self.left_alone: dict[TopicPartition, str] = {}
        """Partitions of which directories are there that must not be touched, and why."""
        self.untouched: list[PartitionLog] = []
        """The logs in those directories."""
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
        reason = self.offline.get(topic_partition) or self.left_alone.get(topic_partition)
        if reason is not None:
            raise StorageError(f"{topic_partition} is offline: {reason}")

    def adopt(self, log: PartitionLog, directory: LogDirectory) -> None:
        """Serve the log from now on, unless another one of the partition counts."""
        topic_partition = log.topic_partition
        other = self.logs.get(topic_partition)
        if other is not None and not self._takes_the_place_of(other, log, directory):
            return
        if any(one.topic_partition == topic_partition for one in self.untouched) and (
            log.topic_id != self.topic_ids.get(topic_partition.topic)
        ):
            self._leave(log, self.left_alone[topic_partition])  # the third of its name
            return
        log.observe(self.observer)
        self.logs[topic_partition] = log
        self._placement.add(topic_partition, directory)

    def _takes_the_place_of(
        self, other: PartitionLog, log: PartitionLog, directory: LogDirectory
    ) -> bool:
        """A partition was found twice: returns whether ``log`` is to be served. What holds records
        and is not served stays as it is.
        """
        topic_partition = log.topic_partition
        reason = f"{topic_partition} is both in {other.directory} and in {log.directory}"
        known = self.topic_ids.get(topic_partition.topic)
        if other.topic_id != log.topic_id and known in (other.topic_id, log.topic_id):
            outdated = log if other.topic_id == known else other
            reason += f"; {outdated.directory} is of another topic: remove it"
            if outdated is log:
                self._leave(log, reason)
            else:
                self.leave_alone(topic_partition, reason)
            return outdated is other
        # A crash may have left an empty one where it could not be made.
        if other.log_end_offset == 0:
            self.set_aside(other, DELETE_DIR_SUFFIX)
            return True
        if log.log_end_offset == 0:
            self._rename_away(log, directory, DELETE_DIR_SUFFIX)
            return False
        reason += "; remove the one that is out of date"
        self.leave_alone(topic_partition, reason)
        self._leave(log, reason)
        return False

    def leave_alone(self, topic_partition: TopicPartition, reason: str) -> None:
        """Serve a partition no more, and let nobody touch its directory."""
        log = self.logs[topic_partition]
        self.forget(log)
        self._leave(log, reason)

    def _leave(self, log: PartitionLog, reason: str) -> None:
        _log.warning("%s is left alone: %s", log.directory, reason)
        self.left_alone[log.topic_partition] = reason
        self.untouched.append(log)

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

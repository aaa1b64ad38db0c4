"""Which partition lives in which log directory, and where the next one goes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from moldau.log.directory.log_directory import LogDirectory
from moldau.log.errors import StorageError
from moldau.log.partition.log import PartitionLog
from moldau.model import MAX_TOPIC_NAME_LENGTH, TopicPartition

_PREFERENCES_MAX: Final = 10_000
"""Anybody may ask for partitions that will never be: only so many are remembered."""


class Placement:
    def __init__(self, directories: Mapping[str, LogDirectory]) -> None:
        self._directories = directories
        self._counts = dict.fromkeys(directories, 0)
        self._free: dict[str, int] = {}
        self._homes: dict[TopicPartition, LogDirectory] = {}
        self._preferred: dict[TopicPartition, str] = {}
        self.unread: list[str] = []
        """Directories that could not be read at the start: nobody knows what is in them."""

    # What lives where --------------------------------------------------------------------------

    def add(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        self._homes[topic_partition] = directory
        self._counts[directory.path] += 1

    def remove(self, topic_partition: TopicPartition) -> LogDirectory:
        directory = self._homes.pop(topic_partition)
        self._counts[directory.path] -= 1
        return directory

    def home(self, topic_partition: TopicPartition) -> LogDirectory:
        return self._homes[topic_partition]

    def reserve(self, directory: LogDirectory) -> None:
        """A partition is being made here: the next one should go elsewhere."""
        self._counts[directory.path] += 1

    def release(self, directory: LogDirectory) -> None:
        self._counts[directory.path] -= 1

    def by_directory(self, logs: Iterable[PartitionLog]) -> dict[str, list[PartitionLog]]:
        """Returns the logs of each directory."""
        logs_of: dict[str, list[PartitionLog]] = {path: [] for path in self._directories}
        for log in logs:
            logs_of[self._homes[log.topic_partition].path].append(log)
        return logs_of

    # Where the next one goes -------------------------------------------------------------------

    def look_for_room(self) -> None:
        """Ask the disks how much is free (blocks a little); it decides between equals."""
        if len(self._directories) > 1:
            self._free = {
                path: usage.free
                for path, directory in self._directories.items()
                if (usage := directory.usage()) is not None
            }

    def prefer(self, topic_partition: TopicPartition, path: str) -> None:
        """Make the partition there, should it ever be made here."""
        if len(topic_partition.topic) > MAX_TOPIC_NAME_LENGTH:
            return  # it never will be
        self._preferred.pop(topic_partition, None)
        self._preferred[topic_partition] = path
        if len(self._preferred) > _PREFERENCES_MAX:
            del self._preferred[next(iter(self._preferred))]

    def for_new(
        self,
        topic_partition: TopicPartition,
        *,
        is_new: bool,
        tried: Collection[str] = (),
    ) -> LogDirectory:
        """Returns where a log that is not there yet is to be made: where it was asked to go, else
        where the fewest partitions are, and among equals where most is free.

        If a directory could not be read, only a partition that ``is_new`` gets a log: others may
        have their records there.
        """
        if self.unread and not is_new:
            raise StorageError(
                f"{topic_partition} may be in a log directory that could not be read: "
                f"{', '.join(self.unread)}"
            )
        usable = [
            directory
            for directory in self._directories.values()
            if directory.is_online and directory.path not in tried
        ]
        if not usable:
            raise StorageError("no log directory is left that could be used")
        # Where all are cordoned the controller places nothing here; who insists (a replica
        # assigned by hand) is served, as in Kafka.
        usable = [directory for directory in usable if not directory.cordoned] or usable
        preferred = self._preferred.pop(topic_partition, None)
        for directory in usable:
            if directory.path == preferred:
                return directory
        return min(usable, key=self._fullness)

    def _fullness(self, directory: LogDirectory) -> tuple[int, int]:
        return self._counts[directory.path], -self._free.get(directory.path, 0)
